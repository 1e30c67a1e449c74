"""The time of a launched job beside the price of its spec, term by term.

    priced    steps (compute + optimizer + bubble + exposed exchanges + host) / goodput
    launched  steps (kernels of the slowest rank + its exposed exchanges)

A launch runs every kernel, and its report has their time on the chip; a price is the plan's, whose
few constants are fitted to published runs. The two are independent estimates: their difference is
shown by term, and the differences of the terms add up to the whole difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.formatting import counted, plural
from trnsim.jobs.price import JobPrice
from trnsim.reader import ForeignRecord, between, declared, load, record
from trnsim.system.train.estimate import TrainingEstimate
from trnsim.system.train.step import AXES

_SCHEMA: Final = "launch/1"
_HOUR_S: Final = 3600.0
_EQUAL: Final = 0.01
"""Maximum difference of equal times, as a share of the priced time."""
_COMPUTING: Final = ("compute", "optimizer", "bubble")
_FIX: Final = "name the world.json of a launch: trnsim launch --report DIR"


@dataclass(frozen=True, kw_only=True)
class _Rank(ForeignRecord):
    """Fields of a rank's entry in the report of a launch that give its time."""

    steps: int = between("steps", 0, 1e12)
    device_time_s: float = declared(help="time of its kernels in a step", unit="s", minimum=0)
    step_s: float = declared(help="time of a step", unit="s", minimum=0)


@dataclass(frozen=True, kw_only=True)
class _World(ForeignRecord):
    """Fields of the report of a launch that give its time."""

    instance: str
    nodes: int = between("number of instances", 1, 1e6)
    ranks_per_node: int = between("ranks of each", 1, 1e6)
    ranks: tuple[_Rank, ...] = declared(help="its ranks", minimum=1)

    @property
    def words(self) -> str:
        """The launch's instances and ranks in words."""
        ranks = plural(self.ranks_per_node, "rank")
        return f"{self.nodes} x {self.instance} with {self.ranks_per_node} {ranks} each"


class Term(NamedTuple):
    """A part of the time of a run.

    Attributes:
        name: the activity that takes the time.
        priced_s: seconds by the plan.
        launched_s: seconds in the launch, for the same number of steps.
    """

    name: str
    priced_s: float
    launched_s: float

    @property
    def difference_s(self) -> float:
        """Seconds by which the launch is longer."""
        return self.launched_s - self.priced_s


@dataclass(frozen=True)
class LaunchedTime:
    """The time of a run by its price and by its launch.

    Attributes:
        steps: steps of the priced run.
        launched_steps: steps of the launch.
        usd_per_hour: price of the instances; None if it is not known.
        terms: parts of both times, which they add up to.
    """

    steps: float
    launched_steps: int
    usd_per_hour: float | None
    terms: tuple[Term, ...]

    @property
    def total(self) -> Term:
        """The sum of all parts, called "whole run"."""
        priced_s = sum(term.priced_s for term in self.terms)
        return Term("whole run", priced_s, sum(term.launched_s for term in self.terms))

    @property
    def is_equal(self) -> bool:
        """True if the times are equal to a hundredth."""
        return abs(self.total.difference_s) <= _EQUAL * self.total.priced_s

    @property
    def main_differences(self) -> tuple[Term, ...]:
        """The terms that differ by more than a hundredth of the whole, the largest first."""
        threshold_s = _EQUAL * self.total.priced_s
        terms = [term for term in self.terms if abs(term.difference_s) > threshold_s]
        return tuple(sorted(terms, key=lambda term: -abs(term.difference_s)))

    def usd(self, time_s: float) -> float | None:
        """The bill of a time; None without a price."""
        return None if self.usd_per_hour is None else time_s * self.usd_per_hour / _HOUR_S


def launched_time(price: JobPrice, path: Path | str) -> LaunchedTime:
    """The time of a job's launch beside its price.

    Args:
        price: the price of the job.
        path: the report of the launch, world.json.

    Raises:
        BadInput: the file is no such report, the launch had other instances or ranks, or the job
            has no plan.
    """
    document = load(path, _FIX)
    content = document.root.value
    if not isinstance(content, dict) or content.get("schema") != _SCHEMA:
        raise document.refused(1, "no report of a launch", _FIX)
    world = record(_World, document.root)
    plan = price.training
    if plan is None:
        why = "; ".join(price.reasons) or "it is no training"
        raise BadInput(
            f"the job has no plan to compare the launch with: {why}",
            fix="state what it names by options: --model, --run-steps, --seq, --batch",
        )
    _check_world(world, plan, path)
    slowest_rank = max(world.ranks, key=lambda rank: rank.step_s)
    return LaunchedTime(
        plan.steps,
        max(rank.steps for rank in world.ranks),
        price.usd_per_hour,
        _terms(plan, price, slowest_rank),
    )


def _check_world(world: _World, plan: TrainingEstimate, path: Path | str) -> None:
    machine = plan.machine
    priced_world = (machine.instance.name, machine.count, machine.ranks_per_instance)
    if (world.instance, world.nodes, world.ranks_per_node) == priced_world:
        return
    raise BadInput(
        f"{path} is of {world.words}; the price is of {machine.count} x "
        f"{machine.instance.name} with {counted(machine.ranks_per_instance, 'rank')} each",
        fix="launch the job as it is priced, with a rank on each logical core",
    )


def _terms(plan: TrainingEstimate, price: JobPrice, rank: _Rank) -> tuple[Term, ...]:
    parts, steps = plan.step.parts_s, plan.steps
    time_s = 0.0 if price.time_s is None else price.time_s.p50
    lost_s = time_s - steps * plan.step.step_s.p50
    return (
        Term(
            "computing",
            steps * sum(parts[name] for name in _COMPUTING),
            steps * rank.device_time_s,
        ),
        Term(
            "exchanges, as far as exposed",
            steps * sum(parts[name] for name in AXES),
            steps * (rank.step_s - rank.device_time_s),
        ),
        Term("host between steps", steps * parts["host"], 0.0),
        Term("checkpoints, failures and restarts", lost_s, 0.0),
    )
