"""The report of a training step: its document, and a timeline for Perfetto or Chrome.

Eager calls run one after another, so a step's device time is the sum of its kernels. Launches are
listed separately: they are hidden while the host is ahead of the device.
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
from trnsim.profile.analysis.step_program import MOST_STORED_KERNELS
from trnsim.profile.formats import trace_events
from trnsim.profile.formats.trace_events import Point, counter, span

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
        parts = (self.collectives, chip_note, self.pages, self.framework_sections)
        document = step_document(self.steps, self.name, *parts)
        first, *others = document.values
        return replace(document, values=[{**first, **self.framework_values}, *others])

    def brief(self) -> list[tuple[str, str]]:
        """Rows of a label and text on the time of the step and its parts."""
        return [*brief_rows(self.steps), *(row for part in report_parts for row in part().rows())]

    def _stored_values(self) -> list[dict[str, Any]]:
        """The values of each chip with its program, of which a later page has lanes and gains."""
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
        contents = {
            "step.txt": text(self.document) + "\n",
            f"step-{self.target}.trace.json": trace_events.as_json(_trace(self.steps[0])),
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
    sections = tuple(Section(head, each, heading_place="page") for head, each in blocks if each)
    values = {name: value for part in parts for name, value in part.values(target).items()}
    return StepReport(steps, step.text, collectives, reason, pages, sections, values)


def _trace(step: StepTime) -> Iterator[trace_events.TraceEvent]:
    """Kernels on one track, modules and phases above them, and the HBM in use as a counter."""
    now_us = 0.0
    for event in step.events:
        start_us = now_us
        for kernel in step.times[event.call].kernels:
            length_us = kernel.device_time_s * _US_PER_S
            yield span(kernel.name, Point(0, "kernels", now_us), length_us)
            now_us += length_us
        for name, track in (
            (event.call.name, "operators"),
            (event.module, "modules"),
            (event.phase.value, "phases"),
        ):
            if name:
                yield span(name, Point(0, track, start_us), now_us - start_us)
        yield counter("HBM", 0, now_us, "bytes", event.live_bytes)
