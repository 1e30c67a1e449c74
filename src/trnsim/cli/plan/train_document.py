"""Plans of training as a document: runs, layouts, the time of a step by cause, and the basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.cli.plan.shared import (
    PriceRemarks,
    answer_pointer,
    bound_note,
    compared_document,
    floor_notes,
    size_of,
    sources_by_phase,
)
from trnsim.document.answer import (
    Block,
    Document,
    Drawing,
    Items,
    Note,
    Section,
    Table,
    columns,
)
from trnsim.document.drawing import Parts, parts_chart
from trnsim.document.values import picked
from trnsim.formatting import amount, amounts, durations, seconds
from trnsim.system.train.estimate import Size, TrainingEstimate
from trnsim.workload.architecture import Architecture

_HOUR_S: Final = 3600.0
_RUN_COLUMNS: Final = columns(
    "platform | instances | chips | time P50 (P10 to P90) | chip-hours | USD P50 (P10 to P90)",
    numbers_from=2,
)
_PRICE_COLUMNS: Final = columns("platform | price", numbers_from=2)
_STEP_COLUMNS: Final = columns(
    "platform | step P50 (P10 to P90) | sequences | sequences/s | tokens/s/chip | MFU"
)
_LAYOUT_COLUMNS: Final = columns("platform | memory | goodput | layout", numbers_to=-1)


def train_document(
    model: Architecture, runs: Sequence[TrainingEstimate], remarks: PriceRemarks
) -> Document:
    """Runs, their layouts, the parts of steps, other layouts as good, and the basis."""
    values = [_values(run) for run in runs]
    bound = bound_note(dict(zip(_labels(runs), (run.step.parts_s for run in runs), strict=True)))
    tables: tuple[tuple[str, Sequence[Block]], ...] = (
        ("Runs", [_runs(runs)]),
        ("Prices", [_prices(runs, remarks.mark)]),
        ("Steps", [_steps(runs)]),
        ("Layouts", [_layouts(runs)]),
        ("Where a step goes", [bound, _step_table(runs), Drawing(_parts_chart(runs))]),
        ("What else is as good", _pareto_blocks(runs, remarks.mark)),
        ("What it rests on", _basis(runs)),
    )
    title = (
        f"{model.name}: {size_of(model)}; "
        f"{amount(runs[0].tokens)} tokens in sequences of {runs[0].step.layout.sequence}"
    )
    sections = [
        Section("", [Note(title, place="text")]),
        *(Section(name, blocks, heading_place="page") for name, blocks in tables),
    ]
    return compared_document(title, values, sections, remarks, "plan-train/1")


def _labels(runs: Sequence[TrainingEstimate]) -> list[str]:
    """The platform of each run, with its instances where there are several of one platform."""
    names = [run.platform for run in runs]
    is_unique = len(set(names)) == len(names)
    return names if is_unique else [f"{run.platform} x {run.machine.count:,}" for run in runs]


def _runs(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            f"{run.machine.count} x {run.machine.instance.name}",
            str(run.machine.chips),
            durations(run.time_s) if run.goodput.can_finish else "never finishes",
            amount(run.time_s.p50 * run.machine.chips / _HOUR_S) if run.goodput.can_finish else "-",
            amounts(run.usd),
        )
        for label, run in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_RUN_COLUMNS, rows)


def _prices(runs: Sequence[TrainingEstimate], mark: str) -> Table:
    priced = zip(_labels(runs), runs, strict=True)
    return Table(_PRICE_COLUMNS, [(label, str(run.quote) + mark) for label, run in priced])


def _steps(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            durations(run.step.step_s),
            str(run.step.layout.global_batch),
            amounts(run.step.sequences_per_s),
            amount(run.step.tokens_per_s_per_chip.p50),
            f"{run.step.mfu:.1%}",
        )
        for label, run in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_STEP_COLUMNS, rows)


def _layouts(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            f"{max(memory.total for memory in run.step.memory) / 2**30:.1f} GiB",
            f"{run.goodput.goodput:.1%}",
            str(run.step.layout),
        )
        for label, run in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_LAYOUT_COLUMNS, rows)


def _step_table(runs: Sequence[TrainingEstimate]) -> Table:
    """The parts of each step in per cent, and the hidden part of the exchanges of data ranks."""
    names = list(runs[0].step.parts_s)
    rows = [
        (
            label,
            *(f"{run.step.parts_s[name] / run.step.step_s.p50:.1%}" for name in names),
            f"{run.step.data_hidden_s / run.step.step_s.p50:.1%}",
        )
        for label, run in zip(_labels(runs), runs, strict=True)
    ]
    return Table(columns(" | ".join(("share of the step", *names, "data, hidden"))), rows)


def _parts_chart(runs: Sequence[TrainingEstimate]) -> str:
    """The chart of the parts of each step."""
    rows = [
        Parts(
            label,
            run.step.parts_s,
            seconds(run.step.step_s.p50),
            answer_pointer(number, len(runs), "parts_s"),
        )
        for number, (label, run) in enumerate(zip(_labels(runs), runs, strict=True))
    ]
    return parts_chart("A step by its parts", rows)


def _pareto_blocks(runs: Sequence[TrainingEstimate], mark: str) -> list[Block]:
    """The Pareto front: layouts that no other one beats in time, USD and chips at once."""
    blocks: list[Block] = []
    shown_platforms: set[str] = set()
    for label, run in zip(_labels(runs), runs, strict=True):
        points = run.front if run.platform not in shown_platforms else ()
        shown_platforms.add(run.platform)
        if len(points) > 1:
            lines = [
                f"{point.machine.count} instance{'s' * (point.machine.count > 1)}, "
                f"{point.machine.chips} chips: "
                f"{durations(point.time_s)}, {amounts(point.usd)} USD{mark}; {point.step.layout}"
                for point in points
            ]
            blocks.append(Note(f"{run.platform}: no other is as fast, as cheap and as small:"))
            blocks.append(Items(lines, indent=2))
        blocks += [Note(f"{label}: note: {_note(run)}")] if _note(run) else []
        blocks.append(
            Note(
                f"{label}: {run.best.legal_layouts:,} layouts, {run.best.fitting_layouts:,} with "
                f"room, {run.best.timed_layouts} timed"
            )
        )
    return blocks


def _note(run: TrainingEstimate) -> str:
    """The main loss of the run's time, and a smaller run that is as fast, in words."""
    return "; ".join(text for text in (run.goodput.why, _smaller_run_text(run)) if text)


def _smaller_run_text(run: TrainingEstimate) -> str:
    smaller = run.smaller
    if smaller is None:
        return ""
    count = smaller.machine.count
    times = f"{durations(run.time_s)} against {durations(smaller.time_s)}"
    advice = f"more than {count:,} do not pay ({smaller.step.layout})"
    return f"{run.machine.count:,} instances are not faster than {count:,}: {times}; {advice}"


def _basis(runs: Sequence[TrainingEstimate]) -> list[Block]:
    """The evidence and sources of each estimate, then the assumptions, each once."""
    blocks: list[Block] = []
    assumers: dict[str, list[str]] = {}
    for label, run in zip(_labels(runs), runs, strict=True):
        state = "; ".join(run.step.estimate.evidence) or "times of your own"
        sources = "; ".join(sources_by_phase(run.step.estimate.sources))
        blocks.append(Note(f"{label}: {state}; {run.basis}; {sources}"))
        extrapolated = [f"extrapolated: {text}" for text in run.step.estimate.extrapolations]
        blocks.append(
            Items([*floor_notes(run.step.layout.ranks, run.machine.lnc), *extrapolated], indent=2)
        )
        for name in run.assumed:
            assumers.setdefault(name, []).append(label)
    assumed = [f"{name} [{', '.join(platforms)}]" for name, platforms in assumers.items()]
    return [*blocks, Note("assumed:", kind="strong"), Items(assumed, indent=2)]


def _values(run: TrainingEstimate) -> dict[str, Any]:
    """An estimate as JSON: figures as P10, P50 and P90 in SI units."""
    step = "step_s sequences_per_s tokens_per_s_per_chip"
    return {
        **picked(run, "model=model.name tokens steps"),
        **picked(run, "platform instance=machine.instance.name instances=machine.count"),
        **picked(run, "chips=machine.chips layout=step.layout"),
        **picked(run.step, step, memory_bytes=[memory.total for memory in run.step.memory]),
        **picked(run.step, "memory_parts_bytes=memory parts_s data_hidden_s mfu flop"),
        "time_s": run.time_s if run.goodput.can_finish else None,
        **picked(run, "usd goodput=goodput.goodput checkpoint_interval_s=goodput.interval_s"),
        "price": str(run.quote),
        "pareto": [_size_values(size) for size in run.front],
        "not_faster_than": None if run.smaller is None else _size_values(run.smaller),
        "searched": picked(
            run.best, "layouts=legal_layouts with_room=fitting_layouts timed=timed_layouts"
        ),
        "validated": run.step.estimate.is_validated,
        "inputs": run.basis.counts,
        "assumed": run.assumed,
        "estimate": run.step.estimate.as_dict(),
        "note": _note(run),
    }


def _size_values(size: Size) -> dict[str, Any]:
    usd = None if size.usd is None else size.usd.p50
    return picked(
        size,
        "instances=machine.count chips=machine.chips layout=step.layout time_s=time_s.p50",
        usd=usd,
    )
