"""Plans of training as a document: runs, layouts, the time of a step by cause, and the basis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.cli.comparison import Refusal
from trnsim.cli.plan.shared import (
    PriceRemarks,
    answer_pointer,
    bound_note,
    compared_document,
    floor_notes,
    size_of,
    sources_by_phase,
)
from trnsim.document.answer import Block, Document, Drawing, Items, Note, Section, Table, columns
from trnsim.document.drawing import Parts, parts_chart
from trnsim.document.values import picked
from trnsim.formatting import amount, amounts, durations, enumerated, seconds
from trnsim.system.train.estimate import Size, TrainingEstimate
from trnsim.system.train.limits import RunLimits
from trnsim.system.train.step import TrainingStep
from trnsim.workload.architecture import Architecture

_HOUR_S: Final = 3600.0
_SLACK: Final = 1.01
"""Ratio of an advised limit to a run that keeps it: another search may end in its equal."""
_RUN_COLUMNS: Final = columns(
    "platform | instances | chips | time P50 (P10 to P90) | chip-hours | USD P50 (P10 to P90)",
    numbers_from=2,
)
_PRICE_COLUMNS: Final = columns("platform | price", numbers_from=2)
_STEP_COLUMNS: Final = columns(
    "platform | step P50 (P10 to P90) | sequences | sequences/s | tokens/s/chip | MFU"
)
_LAYOUT_COLUMNS: Final = columns("platform | memory | goodput | layout", numbers_to=-1)


@dataclass(frozen=True)
class _Row:
    """A run with the words in which several tables, notes and values tell it.

    Attributes:
        label: its platform, with its instances where there are several runs of one platform.
        price: the price of an instance.
        note: the main loss of its time, and a smaller run that is as fast; "" for neither.
        layout: the ranks on each axis.
        estimate: the estimate of its step as JSON.
        inputs: the number of inputs of each provenance.
    """

    run: TrainingEstimate
    label: str
    price: str
    note: str
    layout: str
    estimate: dict[str, Any]
    inputs: str


def train_document(
    model: Architecture,
    runs: Sequence[TrainingEstimate],
    remarks: PriceRemarks,
    limits: RunLimits,
    refusals: Sequence[Refusal] = (),
) -> Document:
    """Runs, their layouts, the parts of steps, other layouts as good, and the basis."""
    rows = _rows(runs, remarks.prices)
    values = [_values(row) | _limit_values(row.run, runs, limits) for row in rows]
    bound = bound_note({row.label: row.run.step.parts_s for row in rows})
    tables: tuple[tuple[str, Sequence[Block]], ...] = (
        *([("Deadline and budget", _limit_notes(rows, limits))] if limits else []),
        ("Runs", [_runs(rows)]),
        ("Prices", [_prices(rows, remarks.mark)]),
        ("Steps", [_steps(rows)]),
        ("Layouts", [_layouts(rows)]),
        (
            "Where a step goes",
            [bound, _step_table(rows), Drawing(_parts_chart(rows, len(rows) + len(refusals)))],
        ),
        ("What else is as good", _pareto_blocks(rows, remarks.mark)),
        ("What it rests on", _basis(rows)),
    )
    title = (
        f"{model.name}: {size_of(model)}; "
        f"{amount(runs[0].tokens)} token{'s' * (runs[0].tokens != 1)} in sequences of "
        f"{runs[0].step.layout.sequence}"
    )
    sections = [
        Section("", [Note(title, place="text")]),
        *(Section(name, blocks, heading_place="page") for name, blocks in tables),
    ]
    return compared_document(title, values, sections, remarks, "plan-train/1", refusals)


def feasible_options(limits: RunLimits, runs: Sequence[TrainingEstimate]) -> list[str]:
    """The options of the nearest limits that some run of any number of instances keeps."""
    option_texts = []
    for feasible in limits.feasible([size for run in runs for size in run.sizes]):
        options = []
        if feasible.deadline_s is not None:
            hours = feasible.deadline_s / _HOUR_S
            is_same = feasible.deadline_s == limits.deadline_s
            options.append(f"--deadline-hours {_digits(hours) if is_same else _rounded_up(hours)}")
        if feasible.usd is not None:
            usd = feasible.usd
            is_same = usd == limits.usd
            options.append(f"--budget-usd {_digits(usd) if is_same else _rounded_up(usd)}")
        option_texts.append(" ".join(options))
    return option_texts


def _rounded_up(value: float) -> str:
    """A number with three digits that is not below a value, in digits that options take."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return _digits(math.ceil(_SLACK * value / unit) * unit)


def _digits(value: float) -> str:
    return f"{value:.12g}"


def _limit_notes(rows: Sequence[_Row], limits: RunLimits) -> list[Block]:
    """The best run that keeps the limits, or what would be feasible, and who misses which."""
    runs = [row.run for row in rows]
    best = limits.best(runs)
    if best is None:
        feasible = " or ".join(feasible_options(limits, runs)) or "nothing that has a public price"
        notes = [f"no run that was tried keeps {limits}; feasible: {feasible}"]
    else:
        row, kind = rows[best], "shortest" if limits.deadline_s is None else "cheapest"
        late = "" if limits.deadline_s is None else _late_text(row.run, limits.deadline_s)
        counts = [size.machine.count for size in row.run.sizes]
        span = f"{min(counts):,} to {max(counts):,}"
        count_text = f"; of {len(counts)} numbers of instances, {span}" if len(counts) > 1 else ""
        notes = [
            f"{kind} run that keeps {limits}: {row.label}, {_run_words(row)}{late}{count_text}"
        ]
    for row in rows:
        if missed := limits.missed_limits(row.run):
            notes.append(f"{row.label} misses the {enumerated(missed, 'and')}: {_run_words(row)}")
    return [Note(notes[0], kind="strong"), *map(Note, notes[1:])]


def _late_text(run: TrainingEstimate, deadline_s: float) -> str:
    """The end at P90 of a run that keeps a deadline at P50; "" if it keeps it at P90 too."""
    if run.time_s.p90 <= deadline_s:
        return ""
    safe_counts = [size.machine.count for size in run.sizes if size.time_s.p90 <= deadline_s]
    advice = f", and {min(safe_counts):,} instances keep it" if safe_counts else ""
    return f"; at P90 it ends after {seconds(run.time_s.p90)}{advice}"


def _run_words(row: _Row) -> str:
    instances, _, time, _, usd = _run_cells(row.run)
    price = f"{usd} USD" if row.run.usd else "no public price"
    return f"{instances}, {time}, {price}"


def _limit_values(
    run: TrainingEstimate, runs: Sequence[TrainingEstimate], limits: RunLimits
) -> dict[str, Any]:
    """The limits as JSON, beside a run: which it misses, and if it is the best that keeps them."""
    if not limits:
        return {}
    best = limits.best(runs)
    return {
        "limits": {
            "deadline_s": limits.deadline_s,
            "budget_usd": limits.usd,
            "missed": limits.missed_limits(run),
            "is_best": best is not None and run is runs[best],
            "feasible": feasible_options(limits, runs) if best is None else [],
        }
    }


def _rows(runs: Sequence[TrainingEstimate], prices: Sequence[str]) -> list[_Row]:
    names = [run.platform for run in runs]
    is_unique = len(set(names)) == len(names)
    labels = names if is_unique else [f"{run.platform} x {run.machine.count:,}" for run in runs]
    return [
        _Row(
            run,
            label,
            price,
            _note(run),
            str(run.step.layout),
            run.step.estimate.as_dict(),
            str(run.basis),
        )
        for run, label, price in zip(runs, labels, prices, strict=True)
    ]


def _note(run: TrainingEstimate) -> str:
    texts = (run.goodput.why, _one_step_text(run), _smaller_run_text(run))
    return "; ".join(text for text in texts if text)


def _one_step_text(run: TrainingEstimate) -> str:
    step_tokens = run.step.layout.global_batch * run.step.layout.sequence
    if run.tokens >= step_tokens:
        return ""
    return f"the run is one step, of {step_tokens:,} tokens: --global-batch makes it smaller"


def _smaller_run_text(run: TrainingEstimate) -> str:
    smaller_run = run.smaller
    if smaller_run is None:
        return ""
    count = smaller_run.machine.count
    times = f"{durations(run.time_s)} against {durations(smaller_run.time_s)}"
    advice = f"more than {count:,} do not pay ({smaller_run.step.layout})"
    return f"{run.machine.count:,} instances are not faster than {count:,}: {times}; {advice}"


def _values(row: _Row) -> dict[str, Any]:
    """A run as JSON: figures as P10, P50 and P90 in SI units."""
    run, step = row.run, "step_s sequences_per_s tokens_per_s_per_chip"
    return {
        **picked(run, "model=model.name tokens steps"),
        **picked(run, "platform instance=machine.instance.name instances=machine.count spares"),
        **picked(run, "chips=machine.chips layout=step.layout"),
        **picked(run.step, step, memory_bytes=[memory.total for memory in run.step.memory]),
        **picked(run.step, "memory_parts_bytes=memory parts_s data_hidden_s mfu flop"),
        "time_s": run.time_s if run.goodput.can_finish else None,
        **picked(run, "usd goodput=goodput.goodput checkpoint_interval_s=goodput.interval_s"),
        "price": row.price,
        "pareto": [_size_values(size) for size in run.front],
        "not_faster_than": None if run.smaller is None else _size_values(run.smaller),
        "searched": picked(
            run.best, "layouts=legal_layouts with_room=fitting_layouts timed=timed_layouts"
        ),
        "validated": run.step.estimate.is_validated,
        "inputs": run.basis.counts,
        "assumed": run.assumed,
        "estimate": row.estimate,
        "note": row.note,
    }


def _size_values(size: Size) -> dict[str, Any]:
    usd = None if size.usd is None else size.usd.p50
    return picked(
        size,
        "instances=machine.count chips=machine.chips layout=step.layout time_s=time_s.p50",
        usd=usd,
    )


def _runs(rows: Sequence[_Row]) -> Table:
    return Table(_RUN_COLUMNS, [(row.label, *_run_cells(row.run)) for row in rows])


def _run_cells(run: TrainingEstimate) -> tuple[str, ...]:
    instances, chips = f"{run.machine.count} x {run.machine.instance.name}", run.machine.chips
    if run.spares:
        instances += f", {run.spares} spare"
    if not run.goodput.can_finish:
        return instances, str(chips), "never finishes", "-", amounts(run.usd)
    chip_hours = amount(run.time_s.p50 * chips / _HOUR_S)
    return instances, str(chips), durations(run.time_s), chip_hours, amounts(run.usd)


def _prices(rows: Sequence[_Row], mark: str) -> Table:
    return Table(_PRICE_COLUMNS, [(row.label, row.price + mark) for row in rows])


def _steps(rows: Sequence[_Row]) -> Table:
    return Table(_STEP_COLUMNS, [(row.label, *_step_cells(row.run.step)) for row in rows])


def _step_cells(step: TrainingStep) -> tuple[str, ...]:
    return (
        durations(step.step_s),
        str(step.layout.global_batch),
        amounts(step.sequences_per_s),
        amount(step.tokens_per_s_per_chip.p50),
        f"{step.mfu:.1%}",
    )


def _layouts(rows: Sequence[_Row]) -> Table:
    cells = [
        (
            row.label,
            f"{max(memory.total for memory in row.run.step.memory) / 2**30:.1f} GiB",
            f"{row.run.goodput.goodput:.1%}",
            row.layout,
        )
        for row in rows
    ]
    return Table(_LAYOUT_COLUMNS, cells)


def _step_table(rows: Sequence[_Row]) -> Table:
    """The parts of each step in per cent, and the hidden part of the exchanges of data ranks."""
    names = list(rows[0].run.step.parts_s)
    cells = [(row.label, *_part_cells(row.run.step, names)) for row in rows]
    return Table(columns(" | ".join(("share of the step", *names, "data, hidden"))), cells)


def _part_cells(step: TrainingStep, names: Sequence[str]) -> tuple[str, ...]:
    parts_s = [*(step.parts_s[name] for name in names), step.data_hidden_s]
    return tuple(f"{part_s / step.step_s.p50:.1%}" for part_s in parts_s)


def _parts_chart(rows: Sequence[_Row], count: int) -> str:
    """The chart of the parts of each step; `count` platforms were asked."""
    bars = [
        Parts(
            row.label,
            row.run.step.parts_s,
            seconds(row.run.step.step_s.p50),
            answer_pointer(number, count, "parts_s"),
        )
        for number, row in enumerate(rows)
    ]
    return parts_chart("A step by its parts", bars)


def _pareto_blocks(rows: Sequence[_Row], mark: str) -> list[Block]:
    """The Pareto front: layouts that no other one beats in time, USD and chips at once."""
    blocks: list[Block] = []
    shown_platforms: set[str] = set()
    for row in rows:
        run, label = row.run, row.label
        points = run.front if run.platform not in shown_platforms else ()
        shown_platforms.add(run.platform)
        if len(points) > 1:
            lines = [
                f"{point.machine.count} instance{'s' * (point.machine.count > 1)}, "
                f"{point.machine.chips} chips: "
                f"{durations(point.time_s)}, {amounts(point.usd)} USD{mark}; {point.step.layout}"
                for point in points
            ]
            title = "runs that no other beats in time, USD and chips at once"
            blocks.append(Note(f"{run.platform}: {title}:"))
            blocks.append(Items(lines, indent=2))
        blocks += [Note(f"{label}: note: {row.note}")] if row.note else []
        blocks.append(
            Note(
                f"{label}: {run.best.legal_layouts:,} legal layouts, "
                f"{run.best.fitting_layouts:,} fit in memory, {run.best.timed_layouts} timed"
            )
        )
    return blocks


def _basis(rows: Sequence[_Row]) -> list[Block]:
    """The evidence and sources of each estimate, then the assumptions, each once."""
    blocks: list[Block] = []
    labels_by_assumption: dict[str, list[str]] = {}
    for row in rows:
        estimate, label = row.run.step.estimate, row.label
        state = "; ".join(estimate.evidence) or "times of your own"
        sources = "; ".join(sources_by_phase(estimate.sources))
        blocks.append(Note(f"{label}: {state}; {row.inputs}; {sources}"))
        extrapolations = [f"extrapolated: {text}" for text in estimate.extrapolations]
        floors = floor_notes(row.run.step.layout.ranks, row.run.machine.lnc)
        blocks.append(Items([*floors, *extrapolations], indent=2))
        for name in row.run.assumed:
            labels_by_assumption.setdefault(name, []).append(label)
    assumptions = [
        f"{name} [{', '.join(platforms)}]" for name, platforms in labels_by_assumption.items()
    ]
    return [*blocks, Note("assumed:", kind="strong"), Items(assumptions, indent=2)]
