"""The report of a training step: its document, and a timeline for Perfetto or Chrome.

Eager calls run one after another, so a step's device time is the sum of its kernels. Launches are
listed separately: they are hidden while the host is ahead of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from trnsim import arch
from trnsim.device.call_log import Recording
from trnsim.device.collective_log import collectives_blocks
from trnsim.device.last_step import last_step
from trnsim.device.step_document import step_document
from trnsim.device.step_time import StepTime, step_time
from trnsim.document.answer import Document
from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.document.values import document_json
from trnsim.files import write_together
from trnsim.profile.formats import trace_events
from trnsim.profile.formats.trace_events import Point, counter, span

_US: Final = 1e6


def write_step(
    recording: Recording,
    folder: Path,
    target: str,
    why: str = "as asked",
    show: Callable[[Document], object] = lambda _: None,
) -> str:
    """Write the report of the last step to `folder`, and return its text.

    The text says `why` the report is for that chip.

    `step.txt`, `step.html` and `step.json` show the step on every chip. The timeline with the HBM
    in use is `step-<target>.trace.json`, in Chrome's format, which Perfetto opens.
    """
    step = last_step(recording, target)
    names = [target, *(name for name in arch.TARGETS if name != target)]
    steps = [step_time(step.events, name) for name in names]
    exchanged = collectives_blocks(recording.collectives, target)
    document = step_document(steps, step.text, exchanged, f"chip: {target} ({why})")
    show(document)
    shown = text(document)
    contents = {
        "step.txt": shown + "\n",
        "step.html": html(document),
        "step.json": document_json(document),
        f"step-{target}.trace.json": trace_events.as_json(_trace(steps[0])),
    }
    write_together(folder, contents)
    return shown


def _trace(step: StepTime) -> Iterator[trace_events.TraceEvent]:
    """Kernels on one track, modules and phases above them, and the HBM in use as a counter."""
    now_us = 0.0
    for event in step.events:
        start_us = now_us
        for kernel in step.times[event.call].kernels:
            length_us = kernel.device_time_s * _US
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
