"""Dynamic batching: a batch of any size in chunks of the traced size, the last one padded.

Source: aws-neuron-sdk, PyTorch NeuronX Tracing API, Dynamic Batching.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API, Dynamic Batching"


class BatchRefused(BadInput, ValueError):
    """Inputs whose batch sizes differ."""


def in_batches(
    function: Callable[[list[Tensor]], list[Tensor]], size: int, inputs: Sequence[Tensor]
) -> list[Tensor]:
    """`function` of `inputs`, called with chunks of `size` along their first dimension.

    A batch of the traced size is called as it is, so its outputs may lack the dimension.

    Raises:
        BatchRefused: for inputs of different batch sizes, or outputs without a batch.
    """
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in inputs}
    if len(sizes) != 1 or 0 in sizes:
        raise BatchRefused(
            f"inputs of batch sizes {', '.join(map(str, sorted(sizes)))}; legal: one size, from 1 "
            "on, in the first dimension of all",
            fix="give all inputs the same first dimension",
            source=_SOURCE,
            line=program_line(),
        )
    batch = sizes.pop()
    if batch == size:
        return function(list(inputs))
    parts = [
        function([_chunk(tensor, start, size) for tensor in inputs])
        for start in range(0, batch, size)
    ]
    outputs: list[Tensor] = []
    for chunks in zip(*parts, strict=True):
        if chunks[0].dim() == 0 or chunks[0].shape[0] != size:
            raise BatchRefused(
                f"an output of shape {list(chunks[0].shape)} for a batch of {size}; legal: the "
                "batch in its first dimension",
                fix="return results for each item of the batch, or call with the traced size",
                source=_SOURCE,
                line=program_line(),
            )
        outputs.append(torch.cat(chunks)[:batch])
    return outputs


def _chunk(tensor: Tensor, start: int, size: int) -> Tensor:
    """`size` items from `start` on; zeros where there are none."""
    chunk = tensor[start : start + size]
    missing = size - chunk.shape[0]
    return functional.pad(chunk, [0, 0] * (chunk.dim() - 1) + [0, missing]) if missing else chunk
