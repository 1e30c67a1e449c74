"""The time of a training step: as text, as JSON, and as a timeline for Perfetto or Chrome.

Eager calls run one after another, so a step's device time is the sum of its kernels. Launches are
listed separately: they are hidden while the host is ahead of the device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from trnsim import arch
from trnsim.device.call_log import Recording
from trnsim.device.collective_log import collectives_text
from trnsim.device.device_core import device_core
from trnsim.device.last_step import last_step
from trnsim.device.step_page import step_page
from trnsim.device.step_time import ROWS, StepTime, step_time
from trnsim.files import write_together
from trnsim.profile.formats import trace_events
from trnsim.profile.formats.trace_events import Point, counter, span

_MS: Final = 1e3
_US: Final = 1e6


def step_text(steps: list[StepTime], which: str = "") -> str:
    """The step on each chip, then the first chip's time by phase, module, operation and line.

    `which` says which of the program's calls the step is.
    """
    lines = [f"device: {device_core(arch.target(steps[0].target))}"]
    lines += [f"step: {which}"] if which else []
    heads = (
        f"{'chip':<6}{'device ms':>11}{'P10 to P90':>21}",
        f"{'launches ms':>13}{'TFLOP':>9}{'MFU %':>8}",
    )
    lines += ["".join(heads), *map(_line, steps)]
    first = steps[0]
    for key in first.keys:
        lines += ["", f"by {key} on {first.target}{'calls':>28}{'ms':>10}{'%':>7}"]
        for name, number, taken in first.by(key)[:ROWS]:
            share = 100 * taken / (first.device_time_s or 1)
            lines.append(f"  {name:<34}{number:>6}{taken * _MS:>10.3f}{share:>7.1f}")
    if first.missing:
        lines += ["", f"without a time, so missing above: {sum(first.missing.values())} calls"]
        lines += [f"  {number:>6}  {why}" for why, number in first.missing.most_common()]
    return "\n".join(lines)


def _line(step: StepTime) -> str:
    """A chip's line of the table."""
    found = step.estimate
    likely = f"{found.at('p10') * _MS:.3f} to {found.at('p90') * _MS:.3f}"
    return (
        f"{step.target:<6}{step.device_time_s * _MS:>11.3f}{likely:>21}{step.launch_s * _MS:>13.3f}"
        f"{step.flop / 1e12:>9.3f}{100 * mfu(step):>8.2f}"
    )


def mfu(step: StepTime) -> float:
    """Model FLOPs utilization: matrix FLOPs over device time times the bfloat16 peak."""
    peak = device_core(arch.target(step.target)).peak_flop_per_s
    return step.flop / (step.device_time_s * peak) if step.device_time_s else 0.0


def write_step(
    recording: Recording,
    folder: Path,
    target: str,
    why: str = "as asked",
    show: Callable[[str], object] = lambda _: None,
) -> str:
    """Write the report of the last step to `folder`, and return its text.

    The text says `why` the report is for that chip.

    `step.txt`, `step.html` and `step.json` show the step on every chip. The timeline with the HBM
    in use is `step-<target>.trace.json`, in Chrome's format, which Perfetto opens.
    """
    step = last_step(recording, target)
    names = [target, *(name for name in arch.TARGETS if name != target)]
    steps = [step_time(step.events, name) for name in names]
    exchanged = collectives_text(recording.collectives, target)
    parts = (f"chip: {target} ({why})\n{step_text(steps, step.text)}", exchanged)
    text = "\n\n".join(part for part in parts if part)
    show(text)
    contents = {
        "step.txt": text + "\n",
        "step.html": step_page(steps, [mfu(chip) for chip in steps], exchanged, step.text),
        "step.json": json.dumps(
            [{**_as_dict(chip), "step": step.text} for chip in steps], indent=1
        ),
        f"step-{target}.trace.json": trace_events.as_json(_trace(steps[0])),
    }
    write_together(folder, contents)
    return text


def _as_dict(step: StepTime) -> dict[str, Any]:
    return {
        "target": step.target,
        "device_time_s": step.device_time_s,
        "estimate": step.estimate.as_dict(),
        "launch_s": step.launch_s,
        "flop": step.flop,
        "mfu": mfu(step),
        "peak_hbm_bytes": max((event.live_bytes for event in step.events), default=0),
        **{
            f"by_{key}": [
                {"name": name, "calls": number, "device_time_s": taken}
                for name, number, taken in step.by(key)
            ]
            for key in step.keys
        },
        "missing": dict(step.missing),
    }


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
