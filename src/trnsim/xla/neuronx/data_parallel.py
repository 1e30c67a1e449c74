"""`torch_neuronx.DataParallel`: a traced module on several cores, each with a part of the batch.

Source: aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX DataParallel API.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from trnsim.device.device_core import visible_core, visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, working_for
from trnsim.torch.traces.batches import BatchRefused
from trnsim.torch.traces.instances import instance_of, load
from trnsim.torch.traces.placement import CoresRefused, placement_of
from trnsim.torch.traces.script_module import programs_in
from trnsim.xla.neuronx.modules import dynamic_batch, loaded_parts

_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX DataParallel API"
_CORE: Final = re.compile(r"nc:(?P<index>\d+)")


class DataParallel(nn.Module):
    """A traced module, replicated on cores.

    Attributes:
        device_ids: indices of the cores.
        dim: the dimension along which inputs are split.
        num_workers: threads that run the parts, two for each core.
        split_size: the size of a part; None for equal parts, one for each core.
        dynamic_batching: True if a part may have another batch size than was traced.
    """

    def __init__(
        self,
        model: Any,
        device_ids: Sequence[int | str] | None = None,
        dim: int = 0,
        set_dynamic_batching: bool = True,
    ) -> None:
        """Replicas of `model` on the cores `device_ids`, all of the process by default.

        Raises:
            BadInput: for a module that was not traced, or cores that do not exist.
        """
        super().__init__()
        loaded_parts(model, "DataParallel")
        if not isinstance(dim, int):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
            raise BatchRefused(
                f"dim={dim!r}; legal: the number of a dimension",
                fix="dim=0",
                source=_SOURCE,
                line=program_line(),
            )
        self.device_ids = _cores(device_ids)
        self.dim = dim
        self.num_workers = 2 * len(self.device_ids)
        self.split_size: int | None = None
        self.dynamic_batching = set_dynamic_batching and dim == 0
        # In lists, so that PyTorch does not register the replicas as submodules.
        self._replicas = [[_replica(model, core)] for core in self.device_ids]
        if self.dynamic_batching:
            try:
                for (replica,) in self._replicas:
                    dynamic_batch(replica)
            except BadInput as error:
                self.dynamic_batching = False
                warnings.warn(f"DataParallel without dynamic batching: {error}", stacklevel=2)

    def disable_dynamic_batching(self) -> None:
        """Take only parts of the size that was traced from now on."""
        self.dynamic_batching = False
        for (replica,) in self._replicas:
            for part, _ in loaded_parts(replica, "DataParallel"):
                part.is_batched = False

    def forward(self, *inputs: Any) -> Any:
        """The results for a batch, in order.

        Raises:
            BatchRefused: for inputs whose sizes along the dimension differ, and for results without
            the dimension.
        """
        parts = self._split(inputs)
        line = program_line()

        def run(item: tuple[int, Any]) -> Any:
            with working_for(line):
                return self._part(*item)

        with ThreadPoolExecutor(max(1, self.num_workers)) as pool:
            # Each core runs its parts in order.
            results = list(pool.map(run, enumerate(parts)))
        return _join_results(results, self.dim)

    def _part(self, number: int, inputs: Any) -> Any:
        """The results of a part, by the replica whose turn it is."""
        return self._replicas[number % len(self._replicas)][0](*inputs)

    def _split(self, inputs: tuple[Any, ...]) -> list[Any]:
        """The inputs of each part."""
        leaves, form = pytree.tree_flatten(inputs)
        value = next((leaf for leaf in leaves if not isinstance(leaf, Tensor)), None)
        if value is not None:
            raise BatchRefused(
                f"an input with {value!r}; legal: tensors, and lists, tuples and dictionaries of "
                "tensors",
                fix="pass what the traced module takes, with a larger batch",
                source=_SOURCE,
                line=program_line(),
            )
        tensors_with_dim = [leaf for leaf in leaves if -leaf.dim() <= self.dim < leaf.dim()]
        sizes = {tensor.shape[self.dim] for tensor in tensors_with_dim}
        if len(sizes) != 1 or len(tensors_with_dim) < len(leaves) or 0 in sizes:
            raise BatchRefused(
                f"inputs of sizes {', '.join(map(str, sorted(sizes))) or 'none'} along dimension "
                f"{self.dim}; legal: one size, from 1 on",
                fix="give all inputs the same size along it, and at least one item",
                source=_SOURCE,
                line=program_line(),
            )
        equal_size = max(1, sizes.pop() // len(self.device_ids))
        size: Any = equal_size if self.split_size is None else self.split_size
        if not isinstance(size, int) or size < 1:
            raise BatchRefused(
                f"split_size={size!r}; legal: None, or a number from 1 on",
                fix="split_size=None gives each core an equal part",
                source=_SOURCE,
                line=program_line(),
            )
        chunks = [torch.split(tensor, size, self.dim) for tensor in leaves]
        return [pytree.tree_unflatten(list(part), form) for part in zip(*chunks, strict=True)]


def _cores(device_ids: Sequence[int | str] | None) -> list[int]:
    if device_ids is None:
        return list(range(len(visible_cores())))
    is_several = isinstance(device_ids, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
    is_several = is_several and not isinstance(device_ids, str)
    cores = [_core(device) for device in device_ids] if is_several else []
    if not cores:
        raise CoresRefused(
            f"device_ids={device_ids!r}, without a core; legal: a list of indices, or of 'nc:0'",
            fix="device_ids=[0, 1], or leave it out for all",
            source=_SOURCE,
            line=program_line(),
        )
    return cores


def _core(device: int | str) -> int:
    match = _CORE.fullmatch(device) if isinstance(device, str) else None
    if isinstance(device, int) or match is not None:
        return visible_core(int(match["index"]) if match else int(device))
    raise CoresRefused(
        f"device_ids has {device!r}; legal: an index, or 'nc:0'",
        fix="device_ids=[0, 1]",
        source=_SOURCE,
        line=program_line(),
    )


def _replica(model: Any, core: int) -> Any:
    """A copy of a traced module on a core."""
    replica: Any = copy.deepcopy(model)
    for part in programs_in(replica):
        part.instance = load(part.program, is_lazy=True)
        instance_of(part.instance, part.program).place(placement_of(core))
    return replica


def _join_results(results: list[Any], dim: int) -> Any:
    """Results of parts, joined along a dimension.

    Raises:
        BatchRefused: for a tensor without the dimension, whose value would be that of one part.
    """
    if len(results) == 1:
        return results[0]
    flat_results = [pytree.tree_flatten(result) for result in results]
    joined_leaves: list[Any] = []
    for leaves in zip(*(leaves for leaves, _ in flat_results), strict=True):
        if not isinstance(leaves[0], Tensor):
            joined_leaves.append(leaves[0])
            continue
        if not -leaves[0].dim() <= dim < leaves[0].dim():
            raise BatchRefused(
                f"a result of shape {list(leaves[0].shape)} of each of {len(results)} parts; "
                f"legal: results with dimension {dim}, along which they are joined",
                fix="return results for each item of the batch, or give one part (split_size)",
                source=_SOURCE,
                line=program_line(),
            )
        joined_leaves.append(torch.cat(leaves, dim))
    return pytree.tree_unflatten(joined_leaves, flat_results[0][1])
