"""Candidate layouts of a search, and a rough filter for layouts that fit in HBM.

Requested sizes are fixed; every other axis has the sizes that divide the dimension which it splits.
One formula over arrays, for stages of average layers, estimates the memory of all layouts at once;
the exact formula (`memory.stages`) checks the layouts whose step is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.place.machine import Machine
from trnsim.system.train import memory
from trnsim.system.train.layout import RECOMPUTES, Layout, divisors, is_legal
from trnsim.system.train.stages import Chunk, all_parts
from trnsim.workload.architecture import Architecture
from trnsim.workload.mixer import Mixer
from trnsim.workload.tensor_ranks import divides_heads

_VIRTUAL_STAGES: Final = (1, 2, 4)
"""Chunks of a stage that are tried."""
_LEAST_TOKENS: Final = 1024
"""Minimum number of tokens of a context rank."""
_MOST_TOKENS: Final = 65536
"""Tokens of a micro batch at most: larger ones gain nothing."""
_COUNT_FIELDS: Final = (
    *("global_batch", "sequence", "micro_batch"),
    *("tensor", "pipeline", "virtual", "data", "context", "expert"),
)
"""Fields of a request that are counts, and so at least 1."""
_ROUGH_MEMORY_SLACK: Final = 1.05
"""Ratio of the rough estimate to the usable HBM above which a layout is dropped."""


@dataclass(frozen=True)
class LayoutRequest:
    """A user's requirements of a layout: the fields of `Layout`, None where the search decides."""

    global_batch: int
    sequence: int
    tensor: int | None = None
    pipeline: int | None = None
    virtual: int | None = None
    data: int | None = None
    context: int | None = None
    expert: int | None = None
    zero: int | None = None
    recompute: str | None = None
    is_sequence: bool | None = None
    micro_batch: int | None = None
    dtype: str = "bf16"
    schedule: str = "1f1b"
    optimizer: str = "adamw"

    @property
    def fixed_fields(self) -> dict[str, Any]:
        """The fields that were requested, by the names of `Layout`."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) is not None
        }

    def plain(self, machine: Machine) -> Layout:
        """The requested layout with 1 on every open axis, and data ranks to fill the machine."""
        layout = replace(Layout(recompute="selective"), **self.fixed_fields)
        if self.data is not None:
            return layout
        other_ranks = layout.tensor * layout.context * layout.pipeline
        is_divisible = other_ranks > 0 and machine.ranks % other_ranks == 0
        return replace(layout, data=machine.ranks // other_ranks if is_divisible else 1)


def layouts(model: Architecture, machine: Machine, request: LayoutRequest) -> list[Layout]:
    """Every legal layout that meets the request and uses all ranks of a machine.

    The list is empty if the request has a size below 1; `layout.check` of `request.plain(machine)`
    then says which.
    """
    if any(size < 1 for name, size in request.fixed_fields.items() if name in _COUNT_FIELDS):
        return []
    return [
        layout
        for layout in _layouts_of_all_ranks(model, machine, request)
        if is_legal(layout, model, machine)
    ]


def _layouts_of_all_ranks(
    model: Architecture, machine: Machine, request: LayoutRequest
) -> Iterator[Layout]:
    depth = model.depth
    expert_sizes = divisors(model.experts.count if model.experts else 1)
    fixed = request.fixed_fields
    for tensor in _choices(request.tensor, _tensor_sizes(model, machine)):
        ranks_left = machine.ranks // tensor if machine.ranks % tensor == 0 else 0
        for pipeline in _choices(request.pipeline, divisors(depth)):
            for context in _choices(request.context, _context_sizes(model, request.sequence)):
                if not ranks_left or ranks_left % (pipeline * context):
                    continue
                data = ranks_left // (pipeline * context)
                if request.data not in (None, data) or data > request.global_batch:
                    continue
                is_sequence = tensor > 1 and request.sequence // context % tensor == 0
                degrees = {"tensor": tensor, "pipeline": pipeline, "context": context}
                expert_choices = [ranks for ranks in expert_sizes if data % ranks == 0]
                for other_fields in _fields_beside_ranks(
                    request, expert_choices, data, depth // pipeline
                ):
                    sizes = fixed | degrees | {"data": data} | other_fields
                    sizes.setdefault("is_sequence", is_sequence)
                    if pipeline > 1 or sizes["virtual"] == 1:
                        yield Layout(**sizes)


def _fields_beside_ranks(
    request: LayoutRequest, expert_sizes: list[int], data: int, stage_layers: int
) -> Iterator[dict[str, Any]]:
    """Combinations of the fields that do not change the number of ranks.

    `expert_sizes` are the choices of expert ranks, `data` is the number of data ranks,
    `stage_layers` the layers of a stage.
    """
    virtual = [n for n in _VIRTUAL_STAGES if stage_layers % n == 0 and request.schedule == "1f1b"]
    zero_stages = [1, 3] if data > 1 else [1]
    for micro in _choices(request.micro_batch, _micro_batches(request, data)):
        for chunks in _choices(request.virtual, virtual or [1]):
            for expert in _choices(request.expert, expert_sizes):
                for zero in _choices(request.zero, zero_stages):
                    for recompute in _choices(request.recompute, list(RECOMPUTES)):
                        yield {
                            "micro_batch": micro,
                            "virtual": chunks,
                            "expert": expert,
                            "zero": zero,
                            "recompute": recompute,
                        }


def _choices(requested: Any, choices: Sequence[Any]) -> Sequence[Any]:
    return choices if requested is None else (requested,)


def _tensor_sizes(model: Architecture, machine: Machine) -> list[int]:
    """Tensor parallel sizes: divisors of an instance's ranks and of every layer's heads."""
    sizes = divisors(machine.ranks_per_instance)
    return [size for size in sizes if divides_heads(model.towers, size)]


def _context_sizes(model: Architecture, sequence: int) -> list[int]:
    """Context parallel sizes; 1 for a model whose mixers pass a state from token to token."""
    if any(isinstance(form, Mixer) for layer in model.decoder.layers for form in layer.attentions):
        return [1]
    powers = (1 << power for power in range(sequence.bit_length()))
    return [size for size in powers if size == 1 or sequence // size >= _LEAST_TOKENS]


def _micro_batches(request: LayoutRequest, data: int) -> list[int]:
    sequences = request.global_batch // data
    most_sequences = max(_MOST_TOKENS // request.sequence, 1)
    powers = (1 << power for power in range(sequences.bit_length()))
    return [size for size in powers if sequences % size == 0 and size <= most_sequences]


Array = npt.NDArray[np.float64]


def fitting_layouts(
    model: Architecture, machine: Machine, candidates: list[Layout]
) -> list[Layout]:
    """The candidates that fit in HBM by the rough estimate."""
    if not candidates:
        return []
    layout_bytes = _needed_bytes(model, candidates)
    is_fitting = layout_bytes <= _ROUGH_MEMORY_SLACK * memory.usable_bytes(machine)
    return [
        layout for layout, is_fit in zip(candidates, is_fitting.tolist(), strict=True) if is_fit
    ]


def smallest_layout(model: Architecture, candidates: list[Layout]) -> Layout:
    """The candidate that needs the least memory by the rough estimate."""
    return candidates[int(np.argmin(_needed_bytes(model, candidates)))]


def _needed_bytes(model: Architecture, candidates: list[Layout]) -> Array:
    """Rough bytes of a rank for each layout: the larger of its first and last stage."""
    keys = [(*_memory_key(layout), layout.pipeline == 1) for layout in candidates]
    layout_by_key = dict(zip(keys, candidates, strict=True))
    parts = {key: all_parts(model, layout) for key, layout in layout_by_key.items()}
    sums = {key: _part_sums(parts[key], layout) for key, layout in layout_by_key.items()}
    table, layers, experts, activations, head, working_set, logits, buffer, per_layer = np.array(
        [sums[key] for key in keys], dtype=np.float64
    ).T
    stages = _column(candidates, "pipeline")
    first_in_flight = np.array([memory.in_flight(layout, 0) for layout in candidates])
    last_in_flight = np.array(
        [memory.in_flight(layout, layout.pipeline - 1) for layout in candidates]
    )
    kept_micro_batches = np.stack([first_in_flight, last_in_flight]) / _column(
        candidates, "virtual"
    )
    is_only = stages == 1
    dense = np.stack([table + is_only * head, head + is_only * table]) + layers / stages
    unsharded_parameters = dense + experts / stages
    shard_ranks = _column(candidates, "shard_ranks")
    sharded_parameters = (dense + experts / stages * _column(candidates, "expert")) / shard_ranks
    parameter_bytes = [memory.bytes_of_parameter(layout) for layout in candidates]
    width, gradient, state = np.array(parameter_bytes).T
    zero = _column(candidates, "zero")
    total = width * np.where(zero > 2, sharded_parameters, unsharded_parameters)  # noqa: PLR2004  ZeRO's own stages
    total += gradient * np.where(
        zero > 1, sharded_parameters, unsharded_parameters
    ) + state * np.where(zero > 0, sharded_parameters, unsharded_parameters)
    total += kept_micro_batches * activations / stages + working_set + buffer
    total += (zero > 2) * memory.GATHERED_LAYERS * width * per_layer  # noqa: PLR2004  as above
    total[1] += logits
    total[0] += is_only * logits
    return np.asarray(total.max(axis=0), dtype=np.float64)


def _column(candidates: list[Layout], name: str) -> Array:
    return np.array([getattr(layout, name) for layout in candidates], dtype=np.float64)


_memory_key: Final = attrgetter(
    *("tensor", "context", "expert", "is_sequence", "micro_batch", "sequence", "dtype"),
    "recompute",
)
"""The fields of a layout, besides its stages, on which the memory of a part depends."""


def _part_sums(parts: Chunk, layout: Layout) -> tuple[float, ...]:
    """Sums over the model's parts on one rank, in the order in which `_needed_bytes` unpacks them.

    Returns:
        Parameters of the embedding, of all layers outside experts, and of all experts; bytes of
        activations kept by all layers; parameters of the head; bytes of recomputed activations of
        the largest layer, of logits, and of the largest collective; parameters of the largest
        layer.
    """
    layers = [part for part in parts if part.is_layer]
    embedding, *_, head = parts
    return (
        embedding.dense,
        sum(part.times * part.dense for part in layers),
        sum(part.times * part.experts for part in layers),
        sum(part.times * memory.kept_bytes(part, layout) for part in layers),
        head.dense,
        max(memory.working_bytes(part, layout) for part in layers),
        memory.logit_bytes(head),
        max((move.nbytes for part in layers for move in part.summary.exchanges), default=0.0),
        max(part.dense + part.experts for part in layers),
    )
