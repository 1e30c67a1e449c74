"""Goodput of a training run: failures, checkpoints, recovery, spare instances and stragglers.

Failures come at random; each stops the job, which goes back to its last checkpoint. The fraction of
the time that is work not lost is

    kept fraction = t / (M exp(R / M) (exp((t + d) / M) - 1))

with the mean time between failures ``M``, the stall of a checkpoint ``d``, the recovery ``R``, and
the work between checkpoints ``t``, which is chosen to maximise it. Goodput is the kept fraction
over the slowdown by stragglers.

Source: Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps",
equation 13; the failure rate, the Llama 3 paper (arXiv:2407.21783), section 3.3.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput
from trnsim.facts import assumed, measured
from trnsim.formatting import seconds

_HOUR_S: Final = 3600.0
CHIP_MTBF_S: Final = measured(
    54 * 24 * _HOUR_S * 16384 / 419,
    "419 unexpected interruptions in 54 days on 16,384 H100 (Llama 3 paper, 3.3.4); Trainium's "
    "rate is not public",
)
CHECKPOINT_S: Final = assumed(
    5.0, "the state copied to host memory, written while training goes on"
)
RECOVERY_S: Final = assumed(300.0, "a failure found, a spare joined, programs and state loaded")
REPLACEMENT_S: Final = assumed(3600.0, "a new instance where no spare is left")
REPAIR_S: Final = assumed(24 * _HOUR_S, "until an instance that failed is a spare again")
STRAGGLER_SPREAD: Final = assumed(
    0.01, "relative spread of one instance's steps; no vendor publishes it"
)
_LEAST_GOODPUT: Final = 1e-3
"""Goodput below which a run counts as never finishing: it would take a thousand times as long."""
_LITTLE_GOODPUT: Final = 0.5
"""Goodput below which `Goodput.why` gives the reason."""
_RARE_UNSPARED_PART: Final = 0.01
"""Fraction of failures that find no spare, below which more spares help little."""
_GOLDEN_SECTION: Final = (math.sqrt(5) - 1) / 2
_SEARCH_ROUNDS: Final = 80
"""Iterations of golden-section search."""


@dataclass(frozen=True)
class Reliability:
    """Failures, checkpoints and stragglers of a run.

    Attributes:
        chip_mtbf_s: mean seconds between failures of one chip with its share of the instance and
            network.
        checkpoint_s: seconds for which a checkpoint stops training.
        recovery_s: seconds from a failure until training goes on, with a spare.
        spares: spare instances, which wait to replace failed ones.
        replacement_s: seconds added to `recovery_s` if no spare is left.
        repair_s: seconds until an instance that failed is a spare again.
        straggler_spread: relative standard deviation of one instance's time for a step.
    """

    chip_mtbf_s: float = CHIP_MTBF_S
    checkpoint_s: float = CHECKPOINT_S
    recovery_s: float = RECOVERY_S
    spares: int = 0
    replacement_s: float = REPLACEMENT_S
    repair_s: float = REPAIR_S
    straggler_spread: float = STRAGGLER_SPREAD

    def __post_init__(self) -> None:
        for name in ("chip_mtbf_s", "repair_s"):
            _check(name, getattr(self, name), is_positive=True)
        for name in ("checkpoint_s", "recovery_s", "spares", "replacement_s", "straggler_spread"):
            _check(name, getattr(self, name), is_positive=False)


def _check(name: str, value: float, *, is_positive: bool) -> None:
    """Refuse a number out of range.

    Raises:
        BadInput: the value is negative or not finite, or zero with `is_positive`.
    """
    if not math.isfinite(value) or value < 0 or (is_positive and not value):
        legal = "a positive number" if is_positive else "zero or a positive number"
        raise BadInput(f"{name} is {value:g}; legal: {legal}")


@dataclass(frozen=True)
class Goodput:
    """The productive fraction of a run's time, and where the rest goes.

    Attributes:
        mtbf_s: mean seconds between failures of the whole job.
        interval_s: seconds of work between checkpoints.
        kept_fraction: fraction of the time left by failures, checkpoints and recovery.
        slowdown: time of a step over its time on instances of equal speed.
        recovery_s: mean seconds from a failure until training goes on.
        unspared_fraction: fraction of failures that find no spare.
        why: where most of the time is lost, and the options that help; "" for a fair goodput.
    """

    mtbf_s: float
    interval_s: float
    kept_fraction: float
    slowdown: float
    recovery_s: float = 0.0
    unspared_fraction: float = 0.0
    why: str = ""

    @property
    def goodput(self) -> float:
        """``kept_fraction / slowdown``: speed of the job over its speed without interruptions."""
        return self.kept_fraction / self.slowdown

    @property
    def can_finish(self) -> bool:
        """True if a run ends in a realistic time: goodput of at least 0.1 %."""
        return self.goodput >= _LEAST_GOODPUT


def goodput(chips: int, instances: int, reliability: Reliability | None = None) -> Goodput:
    """The goodput of one job on `chips` chips of `instances` instances.

    Raises:
        BadInput: a number is out of range.
    """
    reliability = reliability or Reliability()
    mtbf_s = reliability.chip_mtbf_s / chips
    unspared_fraction = _unspared_fraction(mtbf_s, reliability)
    recovery_s = reliability.recovery_s + reliability.replacement_s * unspared_fraction
    interval_s = best_interval_s(mtbf_s, reliability.checkpoint_s)
    useful_fraction = kept_fraction(mtbf_s, interval_s, reliability.checkpoint_s, recovery_s)
    slowdown = straggler_slowdown(instances, reliability.straggler_spread)
    why = ""
    if useful_fraction / slowdown < _LITTLE_GOODPUT:
        ways = ["--spares"] if unspared_fraction > _RARE_UNSPARED_PART else []
        ways += ["--instances for fewer", "--chip-mtbf-hours for chips that fail less often"]
        why = (
            f"goodput {useful_fraction / slowdown:.1%}: a failure every {seconds(mtbf_s)}, and "
            f"{seconds(recovery_s)} until training goes on ({unspared_fraction:.0%} of failures "
            f"find no spare); what helps: {', '.join(ways)}"
        )
    return Goodput(
        mtbf_s, interval_s, useful_fraction, slowdown, recovery_s, unspared_fraction, why
    )


def kept_fraction(
    mtbf_s: float, interval_s: float, checkpoint_s: float, recovery_s: float
) -> float:
    """``t / (M exp(R / M) (exp((t + d) / M) - 1))``, see the module; 0 where it underflows."""
    exponent = (interval_s + checkpoint_s) / mtbf_s
    if exponent + recovery_s / mtbf_s > _LARGEST_EXPONENT:
        return 0.0
    return interval_s / (mtbf_s * math.exp(recovery_s / mtbf_s) * math.expm1(exponent))


_LARGEST_EXPONENT: Final = 700.0
"""Largest exponent whose exponential is a finite double."""
_SHORTEST_INTERVAL_OF_MTBF: Final = 1e-3
"""Shortest interval between checkpoints, over the mean time between failures."""


def best_interval_s(mtbf_s: float, checkpoint_s: float) -> float:
    """The interval with the highest `kept_fraction`; near ``sqrt(2 d M)`` (Young 1974)."""
    low, high = (
        _SHORTEST_INTERVAL_OF_MTBF * mtbf_s,
        2 * math.sqrt(2 * checkpoint_s * mtbf_s) + _SHORTEST_INTERVAL_OF_MTBF * mtbf_s,
    )
    for _ in range(_SEARCH_ROUNDS):
        left, right = high - _GOLDEN_SECTION * (high - low), low + _GOLDEN_SECTION * (high - low)
        if kept_fraction(mtbf_s, left, checkpoint_s, 0.0) < kept_fraction(
            mtbf_s, right, checkpoint_s, 0.0
        ):
            low = left
        else:
            high = right
    return (low + high) / 2


def _unspared_fraction(mtbf_s: float, reliability: Reliability) -> float:
    """Fraction of failures that find all spares under repair (Erlang's loss formula)."""
    load, blocked_fraction = reliability.repair_s / mtbf_s, 1.0
    for busy_spares in range(1, reliability.spares + 1):
        blocked_fraction = load * blocked_fraction / (busy_spares + load * blocked_fraction)
        if not blocked_fraction:  # further spares change nothing
            break
    return blocked_fraction


def straggler_slowdown(instances: int, spread: float) -> float:
    """``1 + spread sqrt(2 ln instances)``: time of the slowest instance over the mean."""
    return 1.0 + spread * math.sqrt(2 * math.log(instances)) if instances > 1 else 1.0
