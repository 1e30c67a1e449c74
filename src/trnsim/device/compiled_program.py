"""A whole program, compiled ahead of time, on one chip: time by kernel, and memory.

Its weights are among its inputs, so their bytes are in the memory plan. No values are computed:
time and memory follow from the graph alone.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, Final

from trnsim.device.device_core import device_text
from trnsim.files import write
from trnsim.formatting import text_table
from trnsim.lower import Cost, MemoryPlan
from trnsim.profile.formats.trace_events import Point, TraceEvent, as_json, counter, span
from trnsim.profile.units import bytes_text, time_text

_ROWS: Final = 16


@dataclass(frozen=True)
class CompiledProgram:
    """A program on one chip.

    Attributes:
        title: the file's name.
        target: the chip.
        operators: the operators of the framework's program, in order.
        missing: operators without a lowering, each with the reason.
        plan: the placement of its tensors in HBM over time.
        kernels: what each operation takes of the program, the dearest first.
        said: what AWS's compiler refuses of it, and flags that have no effect.
        cores: physical cores of a logical one, over which it is split.
        told: why parts of it are kernels one after another, and what two cores do not share.
    """

    title: str
    target: str
    operators: tuple[str, ...]
    missing: tuple[str, ...]
    plan: MemoryPlan
    kernels: tuple[Cost, ...]
    said: tuple[str, ...] = ()
    cores: int = 1
    told: tuple[str, ...] = ()

    @property
    def device_time_s(self) -> float:
        """The whole program; a compiled graph is launched once."""
        return sum(kernel.device_time_s for kernel in self.kernels)

    def text(self) -> str:
        """The report that `trnsim compile` prints."""
        launch_s = self.kernels[0].launch_s if self.kernels else 0.0
        flop = sum(kernel.flop for kernel in self.kernels)
        operators, time_s = len(self.operators), self.device_time_s
        peak, given = self.plan.peak_bytes, self.plan.input_bytes
        device = device_text(self.target, self.cores)
        lines = [
            f"{self.title} on {device}: {operators} operators, {flop / 1e9:.3g} GFLOP",
            f"  time    {time_text(time_s)} of the device, {time_text(launch_s)} to launch",
            f"  memory  {bytes_text(peak)} at most, {bytes_text(given)} of it inputs and weights",
            f"  arena   {self.plan.arena_text()}",
            "",
            self._by_kernel(),
            "",
            "HBM at the peak",
            self.plan.table(),
        ]
        if self.missing:
            lines += ["", "no lowering, so no time: the total is short by what these take"]
            lines += [f"  {why}" for why in self.missing]
        if self.told:
            lines += ["", "program", *(indent(one, "  ") for one in self.told)]
        if self.said:
            lines += ["", "neuronx-cc", *(indent(one, "  ") for one in self.said)]
        return "\n".join(lines)

    def _by_kernel(self) -> str:
        number: Counter[str] = Counter(kernel.name for kernel in self.kernels)
        taken_s: defaultdict[str, float] = defaultdict(float)
        for kernel in self.kernels:
            taken_s[kernel.name] += kernel.device_time_s
        longest = sorted(taken_s.items(), key=lambda row: -row[1])
        total = self.device_time_s or 1.0
        rows = [
            [name, str(number[name]), time_text(time_s), f"{100 * time_s / total:.1f}"]
            for name, time_s in longest[:_ROWS]
        ]
        return text_table(["operations", "parts", "time", "%"], rows)

    def write(self, folder: Path) -> list[Path]:
        """Write `compile-<chip>.txt`, `.json` and a trace; their paths."""
        contents = {
            f"compile-{self.target}.txt": self.text() + "\n",
            f"compile-{self.target}.json": json.dumps(self._as_dict(), indent=1),
            f"compile-{self.target}.trace.json": as_json(self._trace()),
        }
        return [write(folder / name, made, parents=True) for name, made in contents.items()]

    def _as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "target": self.target,
            "lnc": self.cores,
            "device_time_s": self.device_time_s,
            "peak_hbm_bytes": self.plan.peak_bytes,
            "input_bytes": self.plan.input_bytes,
            "arena": self._arena(),
            "missing": list(self.missing),
            "neuronx_cc": list(self.said),
            "program": list(self.told),
            "kernels": [
                {"name": kernel.name, "device_time_s": kernel.device_time_s, "flop": kernel.flop}
                for kernel in self.kernels
            ],
        }

    def _arena(self) -> dict[str, Any]:
        found = self.plan.arena
        tensors = zip(self.plan.inside, found.offsets_bytes, strict=True)
        return {
            "bytes": found.nbytes,
            "at_least_bytes": found.least_bytes,
            "tensors": [
                {"type": str(one.type), "first": one.first, "last": one.last, "offset_bytes": place}
                for one, place in tensors
            ],
        }

    def _trace(self) -> Iterator[TraceEvent]:
        """Operations one after another by their shares of the time, and HBM as it was planned."""
        now_us = 0.0
        for kernel in self.kernels:
            took_us = kernel.device_time_s * 1e6
            yield span(kernel.name, Point(0, "operations", now_us), took_us)
            now_us += took_us
        in_use = self.plan.in_use_bytes
        for place, nbytes in enumerate(in_use):
            yield counter("HBM", 0, now_us * place / len(in_use), "bytes", nbytes)
