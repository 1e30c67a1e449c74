"""Fitting what no document decides: named choices, made on the rows of other kernels.

A switch is a choice with its options: another constant, or another policy of the schedule. A
setting has an option of each switch. Method: coordinate descent from the first options; the best
setting has the least mean of |log(estimate / published)|, in which each kernel weighs the same
however many rows it has. Leaving a kernel out means choosing on the others' rows and judging on
its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from typing import Any

from trnsim.facts import assumed
from trnsim.timing import Policy

V3 = 3


@dataclass(frozen=True)
class Option:
    """One answer to a switch.

    Attributes:
        words: how the page names it.
        change: function of the chip's core that returns the core with this choice.
        order: the policy that orders instructions; None for the default.
    """

    words: str
    change: Callable[[Any], Any] = lambda core: core
    order: Policy | None = None


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


def ordered(ahead):
    """The option that an engine chooses from so many instructions."""
    return Option(f"{ahead}", order=Policy("tried", ahead))


SWITCHES = (
    Switch("instructions to choose from", tuple(map(ordered, (16, 1, 4, 64)))),
    Switch("DMA rate (B/s)", constant("dma_bytes_per_s", (368e9, 404e9), "{:.3g}")),
    Switch(
        "paired DMA rate (B/s)",
        constant("dma_paired_bytes_per_s", (350e9, 329e9, 368e9), "{:.3g}"),
    ),
    Switch("issue of a transfer (s)", constant("dma_issue_s", (0.6e-6, 0.75e-6), "{:.2g}")),
    Switch(
        "dependence on an activation (s)", constant("scalar_dependent_s", (248e-9, 1e-9), "{:.2g}")
    ),
    Switch("FP8 copies (speedup)", constant("vector_8bit_copy_speedup", (2.0, 1.0), "{:.0f}")),
    Switch("launch (s)", constant("launch_s", microseconds(*range(5, 41)), "{:.2g}")),
    Switch(
        "paired launch (s)", constant("paired_launch_s", microseconds(*range(10, 51)), "{:.2g}")
    ),
)
"""The choices. The list was made with all rows in sight."""

SHIPPED: dict[str, Option] = {}
"""The setting that changes nothing."""


def loss(cases, setting, prices):
    """Mean over kernels of the mean |log(estimate / published)| of their rows."""
    by_kernel = defaultdict(list)
    for case in cases:
        ratio = prices.seconds(case, setting) / case.published_s
        by_kernel[case.kernel].append(abs(log(ratio)))
    return sum(sum(errors) / len(errors) for errors in by_kernel.values()) / len(by_kernel)


def choose(cases, prices, switches=SWITCHES):
    """The setting with the least loss on `cases` that coordinate descent finds."""
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
