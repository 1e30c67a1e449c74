"""The conditions that an estimate of a kernel assumes, which a measurement may not share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Final

from trnsim.isa import DgeMode, Engine
from trnsim.timing.compiler_policy import DEFAULT
from trnsim.timing.interval import P90_DEVIATIONS

if TYPE_CHECKING:
    from trnsim.program import Checked
    from trnsim.timing.timeline import Timeline

HARDWARE: Final = "hardware"
SOFTWARE: Final = "software"
STATIC: Final = "none"
_US_PER_S: Final = 1e6
_MAKERS: Final = {
    DgeMode.hwdge: HARDWARE,
    DgeMode.unknown: HARDWARE,
    DgeMode.swdge: SOFTWARE,
    DgeMode.none: STATIC,
}
"""For each DGE mode, the maker of descriptors that is timed.

A kernel that names no mode leaves the choice to the compiler: with --disable-dge there is no DGE.
"""
_DGE_TEXTS: Final = {
    HARDWARE: "hardware DGE",
    SOFTWARE: "software DGE (timed as hardware)",
    STATIC: "no DGE (descriptors wait in HBM)",
}
_ORDER_TEXTS: Final = {
    "compiler": "the compiler's order: an engine takes the first of its next instructions that is "
    "ready",
    "issued": "order of issue",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of an estimate.

    Attributes:
        transfers: number of transfers by the maker of their descriptors: "hardware", "software" or
            "none".
        is_dge_assumed: whether a transfer leaves the maker of its descriptors to the compiler.
        order: the policy that ordered the instructions: "compiler" or "issued".
        lnc: number of cores of the logical core.
        launch_s: the launch that the total time contains; a profile's device time has no launch.
        launch_p10_s: tenth percentile of launches.
        launch_p90_s: ninetieth percentile.
    """

    transfers: dict[str, int]
    is_dge_assumed: bool
    order: str
    lnc: int
    launch_s: float
    launch_p10_s: float
    launch_p90_s: float

    def brief(self) -> str:
        """The conditions in a few words, without the compiler's order, which is the usual one."""
        launch = f"launch {self.launch_s * _US_PER_S:.3g} us"
        makers = " and ".join(_DGE_TEXTS[maker].partition(" (")[0] for maker in self.transfers)
        order = "" if self.order == DEFAULT.name else _ORDER_TEXTS[self.order]
        return ", ".join(filter(None, (launch, makers, f"LNC={self.lnc}", order)))

    def text(self) -> str:
        """The conditions in words."""
        assumption = " (assumed: the kernel leaves dge_mode to the compiler)"
        makers = [
            f"{_DGE_TEXTS[maker]} for {count} transfers"
            + (assumption if self.is_dge_assumed and maker == HARDWARE else "")
            for maker, count in self.transfers.items()
        ]
        low, mid, high = (
            f"{time_s * _US_PER_S:.3g}"
            for time_s in (self.launch_p10_s, self.launch_s, self.launch_p90_s)
        )
        launch = f"a launch of {mid} us (P10 to P90: {low} to {high} us; none in a device profile)"
        return "; ".join([*makers, _ORDER_TEXTS[self.order], f"LNC={self.lnc}", launch])


def conditions(timeline: Timeline) -> Conditions:
    """The conditions of the estimate of `timeline`."""
    program = timeline.program
    core, counts = program.core, Counter(program.which)
    transfers: Counter[str] = Counter()
    is_assumed = False
    for which, checked in enumerate(program.checked):
        if checked.engine is Engine.dma:
            mode = _dge_mode(checked)
            has_dge = bool(core.features.hardware_dge)
            transfers[_MAKERS[mode] if has_dge else STATIC] += counts[which]
            is_assumed |= has_dge and mode is DgeMode.unknown
    launch_s = timeline.launch_s
    factor = exp(P90_DEVIATIONS * core.launch_s.provenance.spread)
    return Conditions(
        dict(transfers),
        is_assumed,
        timeline.order.policy.name,
        2 if core.is_paired else 1,
        launch_s,
        launch_s / factor,
        launch_s * factor,
    )


def _dge_mode(checked: Checked) -> DgeMode:
    mode: DgeMode = getattr(checked.instruction, "dge_mode", DgeMode.unknown)
    return mode
