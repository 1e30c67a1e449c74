"""A training step as a document: chips, time by phase, module and operation, kernels, HBM.

Launches are drawn on a lane of their own, and each kernel where the device runs it: behind its
launch and the kernel before. Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from trnsim import arch
from trnsim.device.device_core import device_core
from trnsim.device.step_time import MAX_TABLE_ROWS, StepTime
from trnsim.document.answer import (
    Block,
    Column,
    Document,
    Drawing,
    Items,
    Note,
    PageLink,
    Place,
    Section,
    Table,
)
from trnsim.document.drawing import legend
from trnsim.document.lanes import lanes
from trnsim.document.values import picked
from trnsim.formatting import counted
from trnsim.profile.analysis.overview import step_actions
from trnsim.profile.analysis.step_lanes import PHASES, step_lanes
from trnsim.profile.analysis.step_program import StepKernel, StepProgram, step_gains
from trnsim.profile.overview_document import GAINS_HEADING, advice_text, gain_text
from trnsim.profile.units import percent_text, rate_text, time_text

_LANES_TITLE: Final = "Kernels, launches and HBM in use over time"
_MS_PER_S: Final = 1e3
_MOST_NAMES: Final = 3
"""Names of phases, operations or reasons that a line has room for."""
_LEAST_PERCENT: Final = 0.01
_CHIP_COLUMNS: Final = (
    Column("chip"),
    *(
        Column(name, is_number=True, is_right=True)
        for name in ("device ms", "P10 to P90", "launches ms", "work", "MFU %")
    ),
)


def step_document(
    steps: Sequence[StepTime],
    step_name: str = "",
    collectives: Sequence[Block] = (),
    chip_note: str = "",
    pages: Mapping[str, str] = MappingProxyType({}),
    framework_sections: Sequence[Section] = (),
) -> Document:
    """A document of a step on several chips, with details of the first chip.

    Args:
        steps: the step on each chip.
        step_name: the position of the step among the program's calls, in words; "" for all calls.
        collectives: a table of the program's collectives.
        chip_note: the first chip, and why it is the first, in words.
        pages: the file of each tile kernel's page beside this one, by the kernel's name.
        framework_sections: sections that a framework adds at the end.
    """
    first = steps[0]
    program = step_program(first)
    drawing = lanes(_LANES_TITLE, step_lanes(program, pages), program.total_s)
    notes = [
        chip_note,
        f"device: {device_core(arch.target(first.target))}",
        step_name and f"step: {step_name}",
    ]
    head = [Note(note) for note in notes if note]
    chips = [_chip_row(step) for step in steps]
    values = [{**_values(step), "step": step_name} for step in steps]
    sections = [
        Section(
            "The step on each chip", [*head, Table(_CHIP_COLUMNS, chips)], heading_place="page"
        ),
        *_advice(values[0], program, "page"),
        *_gains(program, "page"),
        Section(
            "Kernels, launches, HBM in use",
            [
                Drawing(_legend(first), is_wide=True),
                Drawing(drawing, is_wide=True),
            ],
            place="page",
        ),
        *(
            Section(f"By {key}", [_time_table(first, key)], heading_place="page", is_column=True)
            for key in first.keys
        ),
        *_advice(values[0], program, "text"),
        *_gains(program, "text"),
        *_tile_kernels(pages),
        *_missing(first),
        *([Section("Collectives", collectives, heading_place="page")] if collectives else []),
        *framework_sections,
    ]
    return Document(f"Step on {first.target}", values, sections, schema="run-step/1")


def brief_rows(steps: Sequence[StepTime]) -> list[tuple[str, str]]:
    """Rows of a label and text: the time on the first chip, its parts, and the other chips."""
    first, *other_chips = steps
    low, high = (time_text(first.estimate.quantile_s(name)) for name in ("p10", "p90"))
    launches = f"launches {time_text(first.launch_s)}, hidden if the host is ahead"
    time = f"{time_text(first.device_time_s)} (P10 to P90: {low} to {high}); {launches}"
    rows = [("time", time)]
    if len(first.by("phase")) > 1:  # a program without a backward pass has one
        rows.append(("phases", _longest_names(first, "phase")))
    rows.append(("longest", _longest_names(first, "operation")))
    others = [f"{step.target} {time_text(step.device_time_s)}" for step in other_chips]
    rows.append(("chips", ", ".join(others)))
    if first.missing:
        reasons = "; ".join(why for why, _ in first.missing.most_common(_MOST_NAMES))
        count = sum(first.missing.values())
        rows.append(("missing", f"{counted(count, 'call')} without a time: {reasons}"))
    return rows


def _longest_names(step: StepTime, key: str) -> str:
    total_s = step.device_time_s or 1.0
    rows = step.by(key)[:_MOST_NAMES]
    return ", ".join(f"{name} {percent_text(taken_s / total_s)}" for name, _, taken_s in rows)


def mfu(step: StepTime) -> float:
    """Model FLOPs utilization: matrix FLOPs over device time times the bfloat16 peak."""
    peak = device_core(arch.target(step.target)).peak_flop_per_s
    return step.flop / (step.device_time_s * peak) if step.device_time_s else 0.0


def _values(step: StepTime) -> dict[str, Any]:
    return {
        **picked(step, "target device_time_s", estimate=step.estimate.as_dict()),
        **picked(step, "launch_s flop", mfu=mfu(step)),
        "peak_hbm_bytes": max((event.live_bytes for event in step.events), default=0),
        **{
            f"by_{key}": [
                {"name": name, "calls": number, "device_time_s": spent_s}
                for name, number, spent_s in step.by(key)
            ]
            for key in step.keys
        },
        "missing": step.missing,
    }


def _chip_row(step: StepTime) -> Sequence[str]:
    interval = step.estimate.interval
    return (
        step.target,
        f"{step.device_time_s * _MS_PER_S:.3f}",
        f"{interval.p10 * _MS_PER_S:.3f} to {interval.p90 * _MS_PER_S:.3f}",
        f"{step.launch_s * _MS_PER_S:.3f}",
        rate_text(step.flop, "FLOP"),
        _share_text(100 * mfu(step)),
    )


def _share_text(percent: float) -> str:
    """A percentage with two decimals; one between zero and 0.01 as "<0.01"."""
    return f"{percent:.2f}" if not 0 < percent < _LEAST_PERCENT else f"<{_LEAST_PERCENT:.2f}"


def _time_table(step: StepTime, key: str) -> Table:
    total = step.device_time_s or 1.0
    rows = [
        (name, str(number), f"{taken_s * _MS_PER_S:.3f}", f"{100 * taken_s / total:.1f}")
        for name, number, taken_s in step.by(key)[:MAX_TABLE_ROWS]
    ]
    numbers = (Column(name, is_number=True, is_right=True) for name in ("calls", "ms", "%"))
    return Table((Column(f"by {key} on {step.target}"), *numbers), rows)


def _advice(values: dict[str, Any], program: StepProgram, place: Place) -> list[Section]:
    """Advice, the largest gain first: near the top of a page, and at the end of a text."""
    actions = sorted(step_actions(values, program), key=lambda action: -action.gain_s)
    if not actions:
        return []
    head = Note("advice, by what it saves at most:", place="text")
    return [
        Section(
            "Advice, by what it saves at most",
            [head, Items([advice_text(action) for action in actions], indent=2)],
            place=place,
            heading_place="page",
        )
    ]


def _gains(program: StepProgram, place: Place) -> list[Section]:
    """The gains of changes of the step, each timed again."""
    gains = step_gains(program)
    if not gains:
        return []
    of_total = f"of {time_text(program.total_s)} from the first launch on:"
    heads = Note(f"{GAINS_HEADING}, {of_total}", place="text"), Note(of_total, place="page")
    rows = Items([gain_text(gain) for gain in gains], indent=2)
    return [Section("Gains, each timed again", [*heads, rows], place=place, heading_place="page")]


def _missing(step: StepTime) -> list[Section]:
    if not step.missing:
        return []
    count = sum(step.missing.values())
    head = Note(f"without a time, so missing above: {counted(count, 'call')}")
    rows = [(str(number), why) for why, number in step.missing.most_common()]
    heads = (Column("", is_number=True, is_right=True), Column(""))
    return [Section("Without a time", [head, Table(heads, rows, indent=2)], heading_place="page")]


def _tile_kernels(pages: Mapping[str, str]) -> list[Section]:
    if not pages:
        return []
    links = Items([PageLink(name, page) for name, page in pages.items()])
    return [Section("Tile kernels of the program", [links], place="page")]


def step_program(step: StepTime) -> StepProgram:
    """The kernels of a step in order, with their launches and the HBM in use."""
    numbers: dict[StepKernel, int] = {}
    order: list[int] = []
    hbm: list[tuple[int, int]] = []
    for event in step.events:
        time, operation = step.times[event.call], event.call.name.removeprefix("aten::")
        if not hbm or hbm[-1][1] != event.live_bytes:  # a call has its results before it runs
            hbm.append((len(order), event.live_bytes))
        for kernel, launch_s in zip(time.kernels, time.launches_s, strict=True):
            names = (kernel.name, operation, event.module, event.phase.value)
            row = StepKernel(*names, kernel.device_time_s, launch_s)
            order.append(numbers.setdefault(row, len(numbers)))
    hbm_bytes = device_core(arch.target(step.target)).hbm_bytes
    return StepProgram(list(numbers), order, hbm, int(hbm_bytes))


def _legend(step: StepTime) -> str:
    """The colours of the phases that occur, and of launches."""
    phases = {event.phase.value for event in step.events}
    kinds = [kind for kind in PHASES if kind in phases]
    return legend([(kind, kind) for kind in (*kinds, "launch")])
