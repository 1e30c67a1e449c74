"""Pricing: the time of recorded programs on a core, kept in build/accuracy.

A price is kept by the core's constants until the model changes, so that fitting asks each question
once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import micro
import recording as recordings
from published import is_single, kernel_of, published_s
from variants import VARIANTS

from trnsim.facts import assumed
from trnsim.files import write
from trnsim.profile.analysis.summary import summarize
from trnsim.timing import policy_of, timelines
from trnsim.timing.work import work_shares

ROOMS = ("arch", "isa", "profile", "timing")
FILES = ("micro.py", "pricing.py")
COUNTERS = {
    "HFU": "hfu_estimated_percent",
    "hfu_estimated": "hfu_estimated_percent",
    "mbu_estimated (vs ~716 GB/s HBM stack)": "mbu_estimated_percent",
    "tensor_engine_active_percent": "tensor_engine_active_time_percent",
    "dma_active_percent": "dma_active_time_percent",
    "dma_packet_time_sum": "dma_packet_time",
    "tensor_instruction_count": "tensor_engine_instruction_count",
    "vector_engine_active_time": "vector_engine_active_time",
    "vector_active_percent": "vector_engine_active_time_percent",
    "vector_active": "vector_engine_active_time_percent",
    "scalar_active": "scalar_engine_active_time_percent",
    "hbm_read_bytes": "hbm_read_bytes",
    "hbm_write_bytes": "hbm_write_bytes",
}
"""Metric of a published counter -> figure of the summary."""


@dataclass(frozen=True)
class Case:
    """A row with its recording's name and facts.

    Attributes:
        row: as rows.json has it.
        key: the name of its recording.
        target: the chip.
        cores: the size of the logical core.
        folder: the folder of clones.
        is_quick: whether its program is short enough to be priced many times.
    """

    row: dict
    key: str
    target: str
    cores: int
    folder: Path
    is_quick: bool = True

    @property
    def kernel(self):
        """What is left out together."""
        return kernel_of(self.row)

    @property
    def is_single(self):
        """Whether it is of single instructions, not of a kernel."""
        return is_single(self.row)

    @property
    def has_fitted_launch(self):
        """Whether its chip is one whose launch is fitted."""
        return self.target == "trn2"

    @property
    def published_s(self):
        """The published time."""
        return published_s(self.row)


@dataclass
class Shipped:
    """The estimate with the shipped constants.

    Attributes:
        estimate_s: the time.
        bound_by: what bounds the kernel; "" for an instruction.
        counters: figure of the summary -> value.
        shares: kind of work -> its share of the time, of a kernel.
    """

    estimate_s: float
    bound_by: str = ""
    counters: dict = field(default_factory=dict)
    shares: dict = field(default_factory=dict)


class Prices:
    """Prices of cases, by the core's constants and the policy of the schedule."""

    def __init__(self):
        """Forget what an older model said."""
        now = recordings.digest(ROOMS, FILES)
        recordings.keep_if_same(recordings.CACHE / "priced", now, "*.json")
        self._known = {}
        self._conditions = {}

    def prepare(self, cases, settings):
        """Price each case in each setting, loading each recording once."""
        for number, case in enumerate(cases, 1):
            known = self._prices(case)
            missing = {}
            for setting in settings:
                core, name = self._condition(case, setting)
                if name not in known:
                    asked = missing.setdefault(variant_of(case, setting), {})
                    asked[name] = core, order_of(setting)
            if missing:
                for variant, asked in missing.items():
                    recording = recordings.recorded(case.row, case.folder, variant)
                    for name, (core, order) in asked.items():
                        known[name] = work_s(case.row, recording, core, order)
                write(_path(case), json.dumps(known).encode())
                told = f"\rpriced {number}/{len(cases)} {case.row['id']}\x1b[K"
                print(told, end="", file=sys.stderr)

    def seconds(self, case, setting):
        """The estimate for a case in a setting: a kernel's with its launch."""
        core, _ = self._condition(case, setting)
        launch_s = 0.0 if is_single(case.row) else float(core.launch_s)
        return launch_s + self.work_s(case, setting)

    def work_s(self, case, setting):
        """The same without the launch."""
        _, name = self._condition(case, setting)
        if name not in self._prices(case):
            self.prepare([case], [setting])
        return self._prices(case)[name]

    def shipped(self, case):
        """The estimate with the shipped constants, and counters."""
        known = self._prices(case)
        if "shipped" not in known:
            recording = recordings.recorded(case.row, case.folder)
            known["shipped"] = asdict(_shipped(case.row, recording))
            write(_path(case), json.dumps(known).encode())
        return Shipped(**known["shipped"])

    def _prices(self, case):
        if case.key not in self._known:
            path = _path(case)
            self._known[case.key] = json.loads(path.read_bytes()) if path.exists() else {}
        return self._known[case.key]

    def _condition(self, case, setting):
        """The core of a case in a setting, and a name for all that decides the price."""
        options = tuple((switch, option.words) for switch, option in setting.items())
        variant = variant_of(case, setting)
        asked = case.target, case.cores, options, variant
        if asked not in self._conditions:
            core = core_of(case, setting)
            self._conditions[asked] = core, _name(core, order_of(setting), variant)
        return self._conditions[asked]


def core_of(case, setting):
    """The core of a case, with the changes of a setting's options."""

    def changed(core):
        for option in setting.values():
            core = option.change(core)
        return core

    return recordings.core_of(case, changed)


def order_of(setting):
    """The policy that orders instructions in a setting."""
    chosen = [option.order for option in setting.values() if option.order is not None]
    return chosen[-1] if chosen else policy_of("compiler")


def variant_of(case, setting):
    """The variant of the emulator that a setting records a case with; "" where it is the same."""
    names = [option.variant for option in setting.values()]
    return next((n for n in names if n and case.kernel in VARIANTS[n].kernels), "")


def work_s(row, recording, core, order):
    """The time of a kernel without its launch, or what is read for an instruction."""
    runs = [timed(programs, core, order) for programs in recording.runs]
    if is_single(row):
        return float(micro.MEASURES[row["id"]].read(core, *(run[0] for run in runs)))
    return max(timeline.device_time_s for timeline in runs[0])


def timed(programs, core, order):
    """The timelines of programs that run together on such cores."""
    for program in programs:
        program.core = core
        program.checked = [
            replace(checked, cost=checked.instruction.price(core, checked.dims))
            for checked in program.checked
        ]
    return timelines(programs, order)


def _shipped(row, recording):
    core, order = recordings.core_of(recording), policy_of("compiler")
    if is_single(row):
        return Shipped(work_s(row, recording, core, order))
    longest = max(timed(recording.runs[0], core, order), key=lambda timeline: timeline.total_time_s)
    found = summarize(longest)
    return Shipped(
        found.total_time_s,
        found.bound_by,
        {name: found[name] for name in sorted(set(COUNTERS.values()))},
        dict(work_shares(longest)),
    )


def _path(case):
    return recordings.CACHE / f"{case.key}.json"


def _name(core, order, variant):
    """A name for a core's constants but for the launch, an order's policy and a variant."""
    none = assumed(0.0, "left out of a name")
    facts = replace(core, launch_s=none, paired_launch_s=none).facts()
    words = repr((core.name, sorted((name, float(fact)) for name, fact in facts.items())))
    return hashlib.sha256(f"{words} {order} {variant}".encode()).hexdigest()[:16]
