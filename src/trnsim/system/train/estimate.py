"""Time and USD of training a model on one platform: a layout, its step, and the whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput
from trnsim.estimate import matching
from trnsim.estimate.choice import PRODUCTS
from trnsim.estimate.choice import facts as layer_facts
from trnsim.facts import Interval
from trnsim.place.machine import machine
from trnsim.price import Quote, quote
from trnsim.system.train import memory
from trnsim.system.train.best import Best, Effort, best
from trnsim.system.train.candidates import Asked, layouts
from trnsim.system.train.run import Goodput, Reliability, goodput
from trnsim.system.train.stages import trained
from trnsim.uncertainty import Basis, Inputs
from trnsim.workload.operators import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from trnsim.arch.catalogue import Catalogue
    from trnsim.estimate.measured import Measured
    from trnsim.facts import Rate
    from trnsim.place.machine import Machine
    from trnsim.system.train.step import Step
    from trnsim.workload.architecture import Architecture

BATCH_TOKENS: Final = 4 * 2**20
"""Tokens of a step, unless told: Llama 3's first batch (its paper, 3.4.1)."""
SEQUENCE: Final = 8192
_HOUR_S: Final = 3600.0
_EFFICIENCY: Final = "training efficiency"
SHAPELESS: Final = (
    "shapes of products: each takes the same part of the peak, so that more tensor ranks cost "
    "exchanges and fixed times, not columns too few for the Tensor Engine"
)


_SAME: Final = 1.02
"""Runs nearer than this are as long as each other."""


@dataclass(frozen=True)
class Size:
    """A run on a number of instances.

    Attributes:
        machine: the instances.
        step: the shortest step on them.
        time_s: seconds of the run, with what failures take.
        usd: of the run; None without a public price.
    """

    machine: Machine
    step: Step
    time_s: Interval
    usd: Interval | None


@dataclass(frozen=True)
class TrainingEstimate:
    """Training on one platform.

    Attributes:
        model: what is trained.
        platform: the name that was asked for.
        best: the layout that was found, and what was looked at.
        tokens: of the whole run.
        goodput: of a job on all its chips.
        quote: the price of an instance.
        basis: provenance of the inputs.
        reliability: what interrupts the run.
    """

    model: Architecture
    platform: str
    best: Best
    tokens: float
    goodput: Goodput
    quote: Quote
    basis: Basis
    reliability: Reliability | None = None

    @property
    def step(self) -> Step:
        """A step of the best layout."""
        return self.best.step

    @property
    def instance(self) -> str:
        """The type of its instances."""
        return self.best.machine.instance.name

    @property
    def instances(self) -> int:
        """How many."""
        return self.best.machine.count

    @property
    def chips(self) -> int:
        """Chips of all instances."""
        return self.best.machine.chips

    @property
    def validated(self) -> bool:
        """Whether the efficiency was observed on this chip."""
        return self.basis.validated

    @property
    def assumed(self) -> tuple[str, ...]:
        """Assumed inputs, and what times of few constants on AWS's chips take no account of."""
        is_few = any(one.startswith("few constants") for one in self.step.estimate.sources.values())
        return self.basis.assumed + ((SHAPELESS,) if self.best.machine.lnc and is_few else ())

    @property
    def time_s(self) -> Interval:
        """Seconds of the run: ``steps step / goodput``; infinite where it never finishes."""
        return self._run_s(self.step, self.goodput)

    def _run_s(self, step: Step, lost: Goodput) -> Interval:
        if not lost.is_ending:
            return Interval(math.inf, math.inf, math.inf)
        layout = step.layout
        steps = self.tokens / (layout.global_batch * layout.sequence)
        return step.step_s.scaled(steps / lost.goodput)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The run on every number of instances that was looked at, the fewest first."""
        found = []
        for where, step in self.best.others:
            lost = goodput(where.chips, where.count, self.reliability)
            time_s = self._run_s(step, lost)
            found.append(Size(where, step, time_s, self.usd_of(time_s, where.count)))
        return tuple(sorted(found, key=lambda one: one.machine.count))

    @property
    def smaller(self) -> Size | None:
        """The fewest instances on which the run is not longer; None where none are."""
        if not self.goodput.is_ending:
            return None
        limit_s = _SAME * self.time_s.p50
        fewer = (one for one in self.sizes if one.machine.count < self.instances)
        return next((one for one in fewer if one.time_s.p50 <= limit_s), None)

    @property
    def usd(self) -> Interval | None:
        """USD of the run; None without a public price."""
        return self.usd_of(self.time_s, self.instances)

    def usd_of(self, time_s: Interval, instances: int) -> Interval | None:
        """USD of instances for a time; None without a public price or an end."""
        if self.quote.usd_per_hour is None or not math.isfinite(time_s.p50):
            return None
        return time_s.scaled(instances * self.quote.usd_per_hour / _HOUR_S)

    @property
    def chip_hours(self) -> float:
        """Median hours of all chips."""
        return self.time_s.p50 * self.chips / _HOUR_S

    @property
    def tokens_per_s(self) -> float:
        """Median tokens a second of all chips together, what is lost left out."""
        return self.tokens / self.time_s.p50


def estimate(
    model: Architecture,
    on: str,
    tokens: float = 1e9,
    *,
    asked: Asked | None = None,
    instances: int | None = None,
    reliability: Reliability | None = None,
    effort: Effort | None = None,
    measured: Measured | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> TrainingEstimate:
    """Time and USD to train `model` on `tokens` tokens.

    Args:
        model: what is trained.
        on: an instance type, or a short name of `trnsim.place.machine.platforms`.
        tokens: of the whole run.
        asked: what a search of layouts takes as given; `usual` by default.
        instances: how many; the smallest number with a layout that has room by default.
        reliability: what interrupts the run.
        effort: what the search may take.
        measured: a user's times of layers, which win.
        kind: purchase kind of the price.
        as_of: day of the price; today by default.
        rows: the catalogue of prices; the built-in one by default.

    Raises:
        BadInput: a number that cannot be, an unknown platform, no legal layout, a measured table of
            another model.
        OutOfMemory: no layout has room.
    """
    if not (tokens > 0 and math.isfinite(tokens)):
        raise BadInput(
            f"tokens must be positive and finite, not {tokens}", fix="give a positive tokens"
        )
    where = machine(on, instances or 1, rows=rows)
    asked = asked or usual(model, where)
    if measured is not None:
        _check_measured(measured, model, where, asked)
    found = best(model, on, instances, asked, effort, measured)
    if measured is not None:
        made = found.step.layout
        passed = f"train of {made.micro_batch} x {made.sequence} tokens"
        matching.check_used(measured, found.step.estimate.sources, passed)
    price = quote(found.machine.instance.name, kind, as_of=as_of, rows=rows)
    lost = goodput(found.machine.chips, found.machine.count, reliability)
    return TrainingEstimate(model, on, found, tokens, lost, price, _basis(found), reliability)


def _check_measured(table: Measured, model: Architecture, where: Machine, asked: Asked) -> None:
    """Refuse a table that is of none of the layouts that a search may take."""
    splits = {(one.split, one.dtype) for one in layouts(model, where, asked)}
    if splits:  # without one, the search says why
        cases = [(trained(model, dtype), split) for split, dtype in splits]
        matching.check(table, where, (Phase.TRAIN,), cases)


def together(found: Sequence[TrainingEstimate]) -> list[TrainingEstimate]:
    """Runs of one platform, each beside the numbers of instances that any of them looked at.

    Of one number the shortest step counts, whichever search found it.
    """
    shortest: dict[int, tuple[Machine, Step]] = {}
    for where, step in (other for one in found for other in one.best.others):
        known = shortest.get(where.count)
        if known is None or step.step_s.p50 < known[1].step_s.p50:
            shortest[where.count] = where, step
    others = tuple(shortest[count] for count in sorted(shortest))
    return [replace(one, best=replace(one.best, others=others)) for one in found]


def usual(model: Architecture, where: Machine, sequence: int | None = None) -> Asked:
    """What is trained unless told: sequences of a usual length, a batch of a usual size."""
    length = sequence or model.usual_length(SEQUENCE)
    return Asked(usual_batch(where, length), length)


def usual_batch(where: Machine, sequence: int) -> int:
    """About `BATCH_TOKENS`, in as many sequences as the ranks can share.

    That is a power of two times the odd part of their number: an UltraServer of 144 chips has a 9.
    """
    wanted = max(BATCH_TOKENS // sequence, 1)
    odd = where.ranks // (where.ranks & -where.ranks)
    return odd << max(math.ceil(math.log2(wanted / odd)), 0)


def _basis(found: Best) -> Basis:
    """The inputs that decided it, with the provenance of each."""
    where, dtype = found.machine, found.step.layout.dtype
    facts: dict[str, Rate] = {
        f"peak FLOP/s ({dtype})": where.peak(dtype),
        _EFFICIENCY: layer_facts(where, Phase.TRAIN)[PRODUCTS],
        "HBM bytes": where.chip.memory_bytes,
        "HBM bytes/s": where.chip.memory_bytes_per_s,
        "HBM reserve": memory.RESERVE,
    }
    efa = where.instance.efa_bytes_per_s
    if where.count > 1 and efa is not None:
        facts["EFA bytes/s"] = efa
    inputs = Inputs(facts)
    for name in facts:
        inputs.use(name)
    return inputs.basis(_EFFICIENCY)
