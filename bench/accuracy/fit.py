"""Fitting what no document decides: named choices, made on the rows of other kernels.

A switch is a choice with its options: another constant, or another policy of the schedule. A
setting has an option of each switch. Method: coordinate descent from the first options; the best
setting has the least mean of |log(estimate / published)| over rows of kernels. Leaving a kernel out
means choosing on the others' rows and judging on its own. Choices are made on rows whose program is
short (`Case.is_quick`), and judged on all.
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

V3 = 3


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


def constant(name, values, words, generation=V3):
    """Options that set a constant of the cores of one generation; `words` is a format."""

    def option(value):
        def change(core):
            if core.generation != generation:
                return core
            return replace(core, **{name: assumed(value, "an option")})

        return Option(words.format(value), change)

    return tuple(option(value) for value in values)


def microseconds(*values):
    """Seconds."""
    return tuple(value * 1e-6 for value in values)


def second_core(value):
    """The option that the launch of two cores takes so many seconds longer than that of one."""

    def change(core):
        if core.generation != V3:
            return core
        return replace(core, paired_launch_s=assumed(core.launch_s + value, "an option"))

    return Option(f"{value:.2g}", change)


SWITCHES = (
    Switch(
        "order",
        (
            Option("compiler", order=policy_of("compiler")),
            Option("issued", order=policy_of("issued")),
        ),
    ),
    Switch("paired DMA rate (B/s)", constant("dma_paired_bytes_per_s", (350e9, 329e9), "{:.3g}")),
    Switch(
        "wait for an activation (s)",
        constant("scalar_dependent_s", (100e-9, 248e-9), "{:.2g}"),
    ),
    Switch("launch (s)", constant("launch_s", microseconds(26, *range(41)), "{:.2g}")),
    Switch(
        "the second core's launch (s)",
        tuple(map(second_core, microseconds(4, *range(31)))),
    ),
)
"""The choices, applied in this order. The list was made with all rows in sight."""


def both(*options):
    """The option of all of `options`."""

    def change(core):
        for option in options:
            core = option.change(core)
        return core

    return Option(", ".join(option.words for option in options), change)


def one(name, value, words="", generation=V3):
    """The option of one constant."""
    return constant(name, (value,), words, generation)[0]


NEVER_S = 1e-12
WITHOUT = (
    Option("as shipped"),
    Option("order of issue", order=policy_of("issued")),
    Option("broadcasts by four shuffles", variant="shuffles"),
    both(
        one("dma_short_run_bytes_per_s", 272e9, "short rows at the full DMA rate", generation=2),
        one("dma_static_issue_s", 0.6e-6, "600 ns an issue on v2", generation=2),
    ),
    both(
        one("dma_packet_bytes", 2**40, "a contiguous run is one packet"),
        one("dma_stagger_s", NEVER_S, "all DMA engines start at once"),
    ),
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


def loss(cases, setting, prices):
    """Mean of |log(estimate / published)| over the rows of kernels; each row weighs the same."""
    ratios = [
        prices.seconds(case, setting) / case.published_s for case in cases if not case.is_single
    ]
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
    return setting


def leave_one_out(cases, prices, switches=SWITCHES):
    """Kernel -> (setting chosen without it, {row id: estimate} in that setting)."""
    chosen = {}
    for kernel in dict.fromkeys(case.kernel for case in cases):
        setting = choose([case for case in cases if case.kernel != kernel], prices, switches)
        own = [case for case in cases if case.kernel == kernel]
        chosen[kernel] = setting, {case.row["id"]: prices.seconds(case, setting) for case in own}
    return chosen
