"""Fitting what no document decides: named choices, made on the rows of other kernels.

A switch is a choice with its options: another constant, or another policy of the schedule. A
setting has an option of each switch. Method: coordinate descent from the first options; the best
setting has the least mean of |log(estimate / published)| over rows of kernels. Leaving a kernel out
means choosing on the others' rows and judging on its own. Choices are made on rows whose program is
short (`Case.is_quick`), and judged on all.

The launch is a property of how a kernel was measured, not of the chip alone: the same chip has 0 to
45 us of it. So each kernel has its own while switches are chosen, and the launch of a kernel that
nobody has seen is the mean of the others', in which each kernel weighs the same. Otherwise kernels
that were measured with a long launch would choose slow engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Any

from trnsim.facts import assumed
from trnsim.timing import policy_of

if TYPE_CHECKING:
    from trnsim.timing import Policy

V2, V3 = 2, 3


@dataclass(frozen=True)
class Option:
    """One answer to a switch.

    Attributes:
        words: how the page names it.
        change: function of the chip's core that returns the core with this choice.
        order: the policy that orders instructions; None for the default.
        variant: the variant of the emulator that records them; "" for none.
    """

    words: str
    change: Callable[[Any], Any] = lambda core: core
    order: Policy | None = None
    variant: str = ""


@dataclass(frozen=True)
class Switch:
    """A choice between options, of which the first is where the search starts."""

    name: str
    options: tuple[Option, ...]


def constant(name, values, words, generations=(V3,)):
    """Options that set a constant of the cores of some generations; `words` is a format."""

    def option(value):
        def change(core):
            if core.generation not in generations:
                return core
            return replace(core, **{name: assumed(value, "an option")})

        return Option(words.format(value), change)

    return tuple(option(value) for value in values)


def microseconds(*values):
    """Seconds."""
    return tuple(value * 1e-6 for value in values)


HIDDEN = 1e6
"""Columns of a stationary tile a cycle, with which its load takes no time."""

SWITCHES = (
    Switch("paired DMA rate (B/s)", constant("dma_paired_bytes_per_s", (350e9, 329e9), "{:.3g}")),
    Switch(
        "wait for an activation (s)",
        constant("scalar_dependent_s", (100e-9, 248e-9), "{:.2g}"),
    ),
    Switch(
        "stationary columns a cycle",
        constant("stationary_load_columns_per_cycle", (2.0, 4.0, HIDDEN), "{:.2g}", (V2, V3)),
    ),
)
"""The choices, applied in this order. The list was made with all rows in sight."""

LAUNCHES_S = microseconds(*range(71))
"""What the launch of a kernel may be."""

LAUNCH_ROWS_S = 300e-6
"""The longest published time from which a launch is read: ten launches."""

LAUNCHES = {1: ("launch (s)", "launch_s"), 2: ("launch of two cores (s)", "paired_launch_s")}
"""Cores -> the name of their launch in a setting, and of the constant."""


def both(*options):
    """The option of all of `options`."""

    def change(core):
        for option in options:
            core = option.change(core)
        return core

    return Option(", ".join(option.words for option in options), change)


def one(name, value, words="", generations=(V3,)):
    """The option of one constant."""
    return constant(name, (value,), words, generations)[0]


NEVER_S = 1e-12
WITHOUT = (
    Option("as shipped"),
    Option("order of issue", order=policy_of("issued")),
    Option("broadcasts by four shuffles", variant="shuffles"),
    both(
        one("dma_short_run_bytes_per_s", 272e9, "short rows at the full DMA rate", (V2,)),
        one("dma_static_issue_s", 0.6e-6, "600 ns an issue on v2", (V2,)),
    ),
    both(
        one("dma_packet_bytes", 2**40, "a contiguous run is one packet"),
        one("dma_stagger_s", NEVER_S, "all DMA engines start at once"),
    ),
    one("stationary_load_columns_per_cycle", HIDDEN, "stationary loads hidden", (V2, V3)),
    both(one("launch_s", 1e-6, "launch of 1 us"), one("paired_launch_s", 24e-6, "24 us at LNC=2")),
    one("vector_8bit_copy_speedup", 1.0, "no fast mode for FP8"),
    one("activation_table_load_s", NEVER_S, "no table loads"),
    both(
        one("scalar_dependent_s", NEVER_S, "documented access latency alone"),
        one("tensor_dependent_s", NEVER_S, "on both engines"),
    ),
)
"""What each part of the model does: estimates with one of them left out."""

SHIPPED: dict[str, Option] = {}
"""The setting that changes nothing."""


def own_launches(cases, setting, prices):
    """(kernel, cores) -> the launch with the least loss on the kernel's own short rows of Trn2."""
    groups = {}
    for case in cases:
        is_short = case.published_s < LAUNCH_ROWS_S
        if is_short and case.has_fitted_launch and not case.is_single:
            groups.setdefault((case.kernel, case.cores), []).append(case)

    def lost(own, launch_s):
        return sum(
            abs(log((launch_s + prices.work_s(case, setting)) / case.published_s)) for case in own
        )

    return {
        key: min(LAUNCHES_S, key=lambda launch_s: lost(own, launch_s))
        for key, own in groups.items()
    }


def launches(own):
    """Options with the mean of kernels' launches, for each number of cores that has any."""
    found = {}
    for cores, (words, name) in LAUNCHES.items():
        values = [launch_s for (_, of), launch_s in own.items() if of == cores]
        if values:
            value = round(sum(values) / len(values), 6)
            found[words] = one(name, value, f"{value:.2g}")
    return found


def loss(cases, setting, prices):
    """Mean of |log(estimate / published)| over the rows of kernels, each with its own launch.

    A kernel without rows from which a launch can be read has the mean of the others. Each row
    weighs the same.
    """
    own = own_launches(cases, setting, prices)
    setting = {**setting, **launches(own)}

    def seconds(case):
        launch_s = own.get((case.kernel, case.cores))
        if launch_s is None or not case.has_fitted_launch:
            return prices.seconds(case, setting)
        return launch_s + prices.work_s(case, setting)

    ratios = [seconds(case) / case.published_s for case in cases if not case.is_single]
    return sum(abs(log(ratio)) for ratio in ratios) / len(ratios)


def choose(cases, prices, switches=SWITCHES):
    """The setting with the least loss on quick `cases` that coordinate descent finds."""
    cases = [case for case in cases if case.is_quick]
    setting = {switch.name: switch.options[0] for switch in switches}
    best, is_better = loss(cases, setting, prices), True
    while is_better:
        is_better = False
        for switch in switches:
            settings = [{**setting, switch.name: option} for option in switch.options]
            prices.prepare(cases, settings)
            for candidate in settings:
                found = loss(cases, candidate, prices)
                if found < best:
                    setting, best, is_better = candidate, found, True
    return setting | launches(own_launches(cases, setting, prices))


def leave_one_out(cases, prices, switches=SWITCHES):
    """Kernel -> (setting chosen without it, {row id: estimate} in that setting)."""
    chosen = {}
    for kernel in dict.fromkeys(case.kernel for case in cases):
        setting = choose([case for case in cases if case.kernel != kernel], prices, switches)
        own = [case for case in cases if case.kernel == kernel]
        chosen[kernel] = setting, {case.row["id"]: prices.seconds(case, setting) for case in own}
    return chosen
