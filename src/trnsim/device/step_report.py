"""The report of a training step: its document, and a timeline for Perfetto or Chrome.

Eager calls run one after another, so a step's device time is the sum of its kernels. The host's
launches are a track of their own: they are hidden while the host is ahead of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from trnsim import arch
from trnsim.device.call_log import Recording
from trnsim.device.collective_log import collectives_blocks
from trnsim.device.last_step import last_step
from trnsim.device.report_parts import report_parts
from trnsim.device.step_document import brief_rows, step_document, step_program
from trnsim.device.step_time import StepTime, step_time
from trnsim.document.answer import Block, Document, Section
from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.document.values import json_text, with_schema
from trnsim.files import write_together
from trnsim.profile.analysis.step_program import MOST_STORED_KERNELS, StepProgram
from trnsim.profile.formats import trace_events
from trnsim.profile.formats.trace_events import Point, TraceEvent, arrow, counter, metadata, span

_US_PER_S: Final = 1e6


@dataclass(frozen=True)
class StepReport:
    """The last step of a program on every chip.

    Attributes:
        steps: the step on each chip, the requested one first.
        name: the position of the step among the program's calls, in words; "" for all calls.
        collectives: a table of the program's collectives.
        reason: the reason why the first chip is the first.
        pages: the file of each tile kernel's page beside the step's, by the kernel's name.
        framework_sections: sections that a framework adds at the end.
        framework_values: what these sections show, as values of the first chip.
    """

    steps: tuple[StepTime, ...]
    name: str
    collectives: tuple[Block, ...]
    reason: str
    pages: Mapping[str, str] = field(default_factory=dict[str, str])
    framework_sections: tuple[Section, ...] = ()
    framework_values: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def target(self) -> str:
        """The first chip."""
        return self.steps[0].target

    @cached_property
    def document(self) -> Document:
        """The document of the step."""
        chip_note = f"chip: {self.target} ({self.reason})"
        document = step_document(
            self.steps, self.name, self.collectives, chip_note, self.pages, self.framework_sections
        )
        first, *other_chips = document.values
        return replace(document, values=[{**first, **self.framework_values}, *other_chips])

    def brief(self) -> list[tuple[str, str]]:
        """Rows of a label and text on the time of the step and its parts."""
        return [*brief_rows(self.steps), *(row for part in report_parts for row in part().rows())]

    def _stored_values(self) -> list[dict[str, Any]]:
        """The values of each chip, and its program: a later page draws lanes and gains from it."""
        programs = [step_program(step) for step in self.steps]
        return [
            {**values, "program": program.as_data()}
            if len(program.order) <= MOST_STORED_KERNELS
            else values
            for values, program in zip(self.document.values, programs, strict=True)
        ]

    def write(self, folder: Path) -> Path:
        """Write `step.txt`, `step.html`, `step.json` and a timeline; the path of the page.

        The timeline with the HBM in use is `step-<target>.trace.json`, in Chrome's format, which
        Perfetto opens.

        Raises:
            BadInput: the folder cannot be written.
        """
        trace = _trace(self.steps[0], step_program(self.steps[0]))
        contents = {
            "step.txt": text(self.document) + "\n",
            f"step-{self.target}.trace.json": trace_events.as_json(trace),
            "step.json": json_text(with_schema(self._stored_values(), self.document.schema)),
            "step.html": html(self.document),
        }
        return write_together(folder, contents)[-1]


def step_report(
    recording: Recording,
    target: str,
    reason: str = "as asked",
    pages: Mapping[str, str] = MappingProxyType({}),
) -> StepReport:
    """The report of the last step of a program, with `target` as the first chip."""
    step = last_step(recording, target)
    names = [target, *(name for name in arch.TARGETS if name != target)]
    steps = tuple(step_time(step.events, name) for name in names)
    collectives = collectives_blocks(recording.collectives, target)
    parts = [part() for part in report_parts]
    blocks = [(part.heading, part.blocks(target)) for part in parts]
    sections = tuple(Section(head, body, heading_place="page") for head, body in blocks if body)
    values = {name: value for part in parts for name, value in part.values(target).items()}
    return StepReport(steps, step.text, collectives, reason, pages, sections, values)


def _trace(step: StepTime, program: StepProgram) -> Iterator[TraceEvent]:
    """Kernels where the device runs them, their operators and modules, launches, the HBM in use.

    An arrow leads from a launch to its kernel. A call without kernels is where the call before it
    ends.
    """
    ends_s, started_s = program.ends_s, program.launches_s.cumsum()
    for number, name in enumerate(("launches", "kernels", "operators", "modules", "phases")):
        yield metadata("thread_sort_index", 0, name, sort_index=number)
    number, now_us = 0, 0.0
    for event in step.events:
        names = {"operators": event.call.name, "modules": event.module, "phases": event.phase.value}
        spans: list[tuple[float, float]] = []
        for kernel in step.times[event.call].kernels:
            launch_us = float(program.launches_s[number]) * _US_PER_S
            launched = Point(0, "launches", float(started_s[number]) * _US_PER_S - launch_us)
            length_us = kernel.device_time_s * _US_PER_S
            now_us = float(ends_s[number]) * _US_PER_S
            begins = Point(0, "kernels", now_us - length_us)
            yield span(kernel.name, begins, length_us)
            if launch_us:
                yield span(f"launch of {kernel.name}", launched, launch_us)
                yield from arrow("launch", number, launched, begins)
            spans.append((begins.time_us, now_us))
            number += 1
        start_us = spans[0][0] if spans else now_us
        for track, name in names.items():
            if name:
                yield span(name, Point(0, track, start_us), now_us - start_us)
        yield counter("HBM", 0, start_us, "bytes", event.live_bytes)
