"""The layouts that a search looks at, and which of them HBM has room for.

What was asked for stays; every other axis takes the sizes that divide what it shares. The memory of
all of them is one formula over arrays, with the layers' average; the exact one judges those that
are timed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.system.train import memory
from trnsim.system.train.layout import RECOMPUTES, Layout, is_legal
from trnsim.system.train.stages import all_parts
from trnsim.workload.architecture import LatentAttention

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.place.machine import Machine
    from trnsim.workload.architecture import Architecture

_VIRTUAL: Final = (1, 2, 4)
_LEAST_TOKENS: Final = 1024
"""Tokens of a sequence below which it is not shared among context ranks."""
_MOST_TOKENS: Final = 65536
"""Tokens of a micro batch beyond which a larger one gains nothing."""
_SLACK: Final = 1.05
"""How much above its room the average formula may lie before a layout is left out."""


@dataclass(frozen=True)
class Asked:
    """What a user asks of a layout; None where a search decides.

    Attributes are those of `Layout`.
    """

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
    def given(self) -> dict[str, Any]:
        """What was asked for, by the names of `Layout`."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) is not None
        }

    def plain(self, machine: Machine) -> Layout:
        """A layout with what was asked, one rank on every other axis, and data for the rest."""
        made = replace(Layout(recompute="selective"), **self.given)
        if self.data is not None:
            return made
        others = made.tensor * made.context * made.pipeline
        whole = others > 0 and machine.ranks % others == 0
        return replace(made, data=machine.ranks // others if whole else 1)


def layouts(model: Architecture, machine: Machine, asked: Asked) -> list[Layout]:
    """Every legal layout of all ranks of a machine with what was asked."""
    return [one for one in _all(model, machine, asked) if is_legal(one, model, machine)]


def _all(model: Architecture, machine: Machine, asked: Asked) -> Iterator[Layout]:
    depth = sum(tower.depth for tower in model.towers)
    given = asked.given
    for tensor in _or([asked.tensor], _tensors(model, machine)):
        left = machine.ranks // tensor if machine.ranks % tensor == 0 else 0
        for pipeline in _or([asked.pipeline], _divisors(depth)):
            for context in _or([asked.context], _contexts(asked.sequence)):
                if not left or left % (pipeline * context):
                    continue
                data = left // (pipeline * context)
                if asked.data not in (None, data) or data > asked.global_batch:
                    continue
                shared = {"tensor": tensor, "pipeline": pipeline, "context": context}
                for more in _rest(model, asked, data, depth // pipeline):
                    made = given | shared | {"data": data} | more
                    made.setdefault("is_sequence", tensor > 1)
                    if pipeline > 1 or made["virtual"] == 1:
                        yield Layout(**made)


def _rest(model: Architecture, asked: Asked, data: int, each: int) -> Iterator[dict[str, Any]]:
    """The axes that share nothing with the number of ranks."""
    experts = model.experts.count if model.experts else 1
    virtual = [one for one in _VIRTUAL if each % one == 0 and asked.schedule == "1f1b"]
    zeros = [1, 3] if data > 1 else [1]
    for micro in _or([asked.micro_batch], _micro_batches(asked, data)):
        for part in _or([asked.virtual], virtual or [1]):
            for expert in _or([asked.expert], [e for e in _divisors(experts) if data % e == 0]):
                for zero in _or([asked.zero], zeros):
                    for recompute in _or([asked.recompute], list(RECOMPUTES)):
                        yield {
                            "micro_batch": micro,
                            "virtual": part,
                            "expert": expert,
                            "zero": zero,
                            "recompute": recompute,
                        }


def _or(asked: list[Any], others: Sequence[Any]) -> Sequence[Any]:
    return others if asked == [None] else asked


def _tensors(model: Architecture, machine: Machine) -> list[int]:
    """Sizes that divide an instance's ranks and every attention's heads."""
    heads = {
        one.heads
        for tower in model.towers
        for layer in tower.layers
        for one in layer.attentions
        if one.heads or isinstance(one, LatentAttention)
    }
    sizes = _divisors(machine.ranks_per_instance)
    return [size for size in sizes if all(head % size == 0 for head in heads)]


def _contexts(sequence: int) -> list[int]:
    powers = (1 << power for power in range(sequence.bit_length()))
    return [one for one in powers if one == 1 or sequence // one >= _LEAST_TOKENS]


def _micro_batches(asked: Asked, data: int) -> list[int]:
    each = asked.global_batch // data
    most = max(_MOST_TOKENS // asked.sequence, 1)
    powers = (1 << power for power in range(each.bit_length()))
    return [one for one in powers if each % one == 0 and one <= most]


def _divisors(whole: int) -> list[int]:
    return [size for size in range(1, whole + 1) if whole % size == 0]


Array = npt.NDArray[np.float64]


def fitting(model: Architecture, machine: Machine, made: list[Layout]) -> list[Layout]:
    """Those that HBM has room for, by the average of the layers."""
    if not made:
        return []
    needed = _needed(model, made)
    fits = needed <= _SLACK * memory.room(machine)
    return [one for one, is_fit in zip(made, fits.tolist(), strict=True) if is_fit]


def least(model: Architecture, made: list[Layout]) -> Layout:
    """The layout that needs the least memory."""
    return made[int(np.argmin(_needed(model, made)))]


def _needed(model: Architecture, made: list[Layout]) -> Array:
    """Bytes of the fuller one of the first and the last stage of each layout."""
    sums = np.array([_sums(model, one) for one in made], dtype=np.float64).T
    table, layers, experts, kept, head, working, logits, buffer, per_layer = sums
    stages = _of(made, "pipeline")
    first = np.array([memory.in_flight(one, 0) for one in made])
    last = np.array([memory.in_flight(one, one.pipeline - 1) for one in made])
    flights = np.stack([first, last]) / _of(made, "virtual")
    alone = stages == 1
    dense = np.stack([table + alone * head, head + alone * table]) + layers / stages
    held = dense + experts / stages
    shard = _of(made, "shard")
    shared = (dense + experts / stages * _of(made, "expert")) / shard
    bits = [memory.bytes_of_parameter(one) for one in made]
    width, gradient, state = np.array(bits).T
    zero = _of(made, "zero")
    total = width * np.where(zero > 2, shared, held)  # noqa: PLR2004  ZeRO's own stages
    total += gradient * np.where(zero > 1, shared, held) + state * np.where(zero > 0, shared, held)
    total += flights * kept / stages + working + buffer
    total += (zero > 2) * memory.GATHERED_LAYERS * width * per_layer  # noqa: PLR2004  as above
    total[1] += logits
    total[0] += alone * logits
    return np.asarray(total.max(axis=0), dtype=np.float64)


def _of(made: list[Layout], name: str) -> Array:
    return np.array([getattr(one, name) for one in made], dtype=np.float64)


_KEYS: Final = (
    *("tensor", "context", "expert", "is_sequence", "micro_batch", "sequence", "dtype"),
    "recompute",
)


def _sums(model: Architecture, layout: Layout) -> tuple[float, ...]:
    key = tuple(getattr(layout, name) for name in _KEYS)
    return _summed(model, key, min(layout.pipeline, 2))


@lru_cache(maxsize=1 << 14)
def _summed(model: Architecture, key: tuple[Any, ...], pipeline: int) -> tuple[float, ...]:
    """What all layers hold and keep together, and what lies before and behind them."""
    layout = Layout(**dict(zip(_KEYS, key, strict=True)), pipeline=pipeline)
    parts = all_parts(model, layout)
    layers = [part for part in parts if part.is_layer]
    before, *_, behind = parts
    return (
        before.dense,
        sum(part.times * part.dense for part in layers),
        sum(part.times * part.experts for part in layers),
        sum(part.times * memory.kept_bytes(part, layout) for part in layers),
        behind.dense,
        max(memory.working_bytes(part, layout) for part in layers),
        memory.logit_bytes(behind),
        max((one.nbytes for part in layers for one in part.summary.exchanges), default=0.0),
        max(part.dense + part.experts for part in layers),
    )
