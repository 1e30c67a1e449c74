"""Plans of training as a document: runs, layouts, where a step goes, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.cli.plan.shared import (
    PriceRemarks,
    bound_note,
    by_phase,
    compared_document,
    floor_notes,
    place_of,
    size_of,
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
    model: Architecture, runs: Sequence[TrainingEstimate], said: PriceRemarks
) -> Document:
    """Runs, their layouts, where steps go, what else is as good, and what it rests on."""
    title = (
        f"{model.name}: {size_of(model)}; "
        f"{amount(runs[0].tokens)} tokens in sequences of {runs[0].step.layout.sequence}"
    )
    tables: tuple[tuple[str, Sequence[Block]], ...] = (
        ("Runs", [_runs(runs)]),
        ("Prices", [_prices(runs, said.mark)]),
        ("Steps", [_steps(runs)]),
        ("Layouts", [_layouts(runs)]),
        ("Where a step goes", [_bound(runs), _step_table(runs), Drawing(_parts(runs))]),
        ("What else is as good", _pareto_blocks(runs, said.mark)),
        ("What it rests on", _basis(runs)),
    )
    sections = [
        Section("", [Note(title, place="text")]),
        *(Section(name, blocks, heading_place="page") for name, blocks in tables),
    ]
    return compared_document(title, [_values(e) for e in runs], sections, said, "plan-train/1")


def _labels(runs: Sequence[TrainingEstimate]) -> list[str]:
    """The platform of each run, with its instances where there are several of one platform."""
    names = [e.platform for e in runs]
    is_one = len(set(names)) == len(names)
    return names if is_one else [f"{e.platform} x {e.machine.count:,}" for e in runs]


def _runs(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            f"{e.machine.count} x {e.machine.instance.name}",
            str(e.machine.chips),
            durations(e.time_s) if e.goodput.can_finish else "never finishes",
            amount(e.time_s.p50 * e.machine.chips / _HOUR_S) if e.goodput.can_finish else "-",
            amounts(e.usd),
        )
        for label, e in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_RUN_COLUMNS, rows)


def _prices(runs: Sequence[TrainingEstimate], mark: str) -> Table:
    priced = zip(_labels(runs), runs, strict=True)
    return Table(_PRICE_COLUMNS, [(label, str(e.quote) + mark) for label, e in priced])


def _steps(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            durations(e.step.step_s),
            str(e.step.layout.global_batch),
            amounts(e.step.sequences_per_s),
            amount(e.step.tokens_per_s_per_chip.p50),
            f"{e.step.mfu:.1%}",
        )
        for label, e in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_STEP_COLUMNS, rows)


def _layouts(runs: Sequence[TrainingEstimate]) -> Table:
    rows = [
        (
            label,
            f"{max(memory.total for memory in e.step.memory) / 2**30:.1f} GiB",
            f"{e.goodput.goodput:.1%}",
            str(e.step.layout),
        )
        for label, e in zip(_labels(runs), runs, strict=True)
    ]
    return Table(_LAYOUT_COLUMNS, rows)


def _bound(runs: Sequence[TrainingEstimate]) -> Note:
    return bound_note({label: e.step.parts_s for label, e in zip(_labels(runs), runs, strict=True)})


def _step_table(runs: Sequence[TrainingEstimate]) -> Table:
    """The parts of each step in per cent, and the hidden part of the exchanges of data ranks."""
    names = list(runs[0].step.parts_s)
    rows = [
        (
            label,
            *(f"{e.step.parts_s[name] / e.step.step_s.p50:.1%}" for name in names),
            f"{e.step.data_hidden_s / e.step.step_s.p50:.1%}",
        )
        for label, e in zip(_labels(runs), runs, strict=True)
    ]
    return Table(columns(" | ".join(("share of the step", *names, "data, hidden"))), rows)


def _parts(runs: Sequence[TrainingEstimate]) -> str:
    """The chart of the parts of each step."""
    rows = [
        Parts(label, e.step.parts_s, seconds(e.step.step_s.p50), place_of(at, len(runs), "parts_s"))
        for at, (label, e) in enumerate(zip(_labels(runs), runs, strict=True))
    ]
    return parts_chart("A step by its parts", rows)


def _pareto_blocks(runs: Sequence[TrainingEstimate], mark: str) -> list[Block]:
    """The layouts that no other one beats in time, USD and chips at once."""
    blocks: list[Block] = []
    shown: set[str] = set()
    for label, e in zip(_labels(runs), runs, strict=True):
        points = e.front if e.platform not in shown else ()
        shown.add(e.platform)
        if len(points) > 1:
            lines = [
                f"{point.machine.count} instances, {point.machine.chips} chips: "
                f"{durations(point.time_s)}, {amounts(point.usd)} USD{mark}; {point.step.layout}"
                for point in points
            ]
            blocks.append(Note(f"{e.platform}: no other is as fast, as cheap and as small:"))
            blocks.append(Items(lines, indent=2))
        blocks += [Note(f"{label}: note: {_note(e)}")] if _note(e) else []
        blocks.append(
            Note(
                f"{label}: {e.best.looked_at:,} layouts, {e.best.fitting:,} with room, "
                f"{e.best.timed} timed"
            )
        )
    return blocks


def _note(e: TrainingEstimate) -> str:
    """The main loss of the run's time, and a smaller number of instances that is as fast."""
    return "; ".join(text for text in (e.goodput.why, _smaller_run_text(e)) if text)


def _smaller_run_text(e: TrainingEstimate) -> str:
    fewer = e.smaller
    if fewer is None:
        return ""
    count = fewer.machine.count
    both = f"{durations(e.time_s)} against {durations(fewer.time_s)}"
    least = f"more than {count:,} do not pay ({fewer.step.layout})"
    return f"{e.machine.count:,} instances are not faster than {count:,}: {both}; {least}"


def _basis(runs: Sequence[TrainingEstimate]) -> list[Block]:
    """The basis of each estimate, then the assumptions, each once."""
    blocks: list[Block] = []
    seen: dict[str, list[str]] = {}
    for label, e in zip(_labels(runs), runs, strict=True):
        state = "; ".join(e.step.estimate.evidence) or "times of your own"
        sources = "; ".join(by_phase(e.step.estimate.sources))
        blocks.append(Note(f"{label}: {state}; {e.basis}; {sources}"))
        beyond = [f"extrapolated: {text}" for text in e.step.estimate.extrapolations]
        blocks.append(Items([*floor_notes(e.step.layout.ranks, e.machine.lnc), *beyond], indent=2))
        for name in e.assumed:
            seen.setdefault(name, []).append(label)
    assumed = [f"{name} [{', '.join(platforms)}]" for name, platforms in seen.items()]
    return [*blocks, Note("assumed:", kind="strong"), Items(assumed, indent=2)]


def _values(e: TrainingEstimate) -> dict[str, Any]:
    """An estimate as JSON: figures as P10, P50 and P90 in SI units."""
    step = "step_s sequences_per_s tokens_per_s_per_chip"
    return {
        **picked(e, "model=model.name tokens steps"),
        **picked(e, "platform instance=machine.instance.name instances=machine.count"),
        **picked(e, "chips=machine.chips layout=step.layout"),
        **picked(e.step, step, memory_bytes=[memory.total for memory in e.step.memory]),
        **picked(e.step, "memory_parts_bytes=memory parts_s data_hidden_s mfu flop"),
        "time_s": e.time_s if e.goodput.can_finish else None,
        **picked(e, "usd goodput=goodput.goodput checkpoint_interval_s=goodput.interval_s"),
        "price": str(e.quote),
        "pareto": [_size_values(size) for size in e.front],
        "not_faster_than": None if e.smaller is None else _size_values(e.smaller),
        "searched": picked(e.best, "layouts=looked_at with_room=fitting timed"),
        "validated": e.step.estimate.is_validated,
        "inputs": e.basis.counts,
        "assumed": e.assumed,
        "estimate": e.step.estimate.as_dict(),
        "note": _note(e),
    }


def _size_values(size: Size) -> dict[str, Any]:
    usd = None if size.usd is None else size.usd.p50
    return picked(
        size,
        "instances=machine.count chips=machine.chips layout=step.layout time_s=time_s.p50",
        usd=usd,
    )
