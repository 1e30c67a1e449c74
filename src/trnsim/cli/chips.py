"""``trnsim chips``: chips, GPUs and TPUs side by side, announced ones, contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trnsim.arch.catalogue import Accelerator, Announced, catalogue
from trnsim.cli.hardware_blocks import GIB, GIGA, TERA, announced_card, contradictions, tera
from trnsim.cli.on import On, platforms
from trnsim.cli.options import parser
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.facts import Rate

app = parser()

_FP8_PEAKS = ("fp8", "fp8_e4", "mxfp8", "cfp8")
_FP4_PEAKS = ("fp4", "mxfp4")
_CHIP_COLUMNS: Final = columns(
    "chip | year | bf16 | clock | fp8 | fp4 | GiB | TB/s | link GB/s | W"
)
_NOTES: Final = (
    "bf16, fp8, fp4: published peaks, dense TFLOP/s; clock: bf16 TFLOP/s as array x clock.",
    "GiB, TB/s: memory and its bandwidth; link GB/s: to other chips; W: power.",
    "fp8 of Trainium1 and Inferentia2 is cFP8, of Trainium3 MXFP8; of TPU v5e INT8.",
)


@app.command()
@answering
def chips(*, on: On = None) -> Document:
    """List Trainium, Inferentia, GPUs and TPUs, with peaks, memory and contradictions.

    Peaks are published dense TFLOP/s; beside them, what the array multiplies at its clock. Where
    sources disagree both readings are listed, and the one that is used.

    Example: trnsim chips --on trn2,p5en
    """
    rows = catalogue()
    published_chips = [*rows.chips.values(), *rows.gpus.values()]
    announced_chips = list(rows.announced.values())
    if on:
        chip_names = {platform.chip for platform in platforms(on)}
        published_chips = [chip for chip in published_chips if chip.name in chip_names]
        announced_chips = []
    cards = [block for chip in announced_chips for block in announced_card(chip)]
    sections = [
        Section(
            "Chips",
            [Table(_CHIP_COLUMNS, [_row(chip) for chip in published_chips])],
            heading_place="page",
        ),
        Section("", [Note(note) for note in _NOTES]),
        Section("Announced", cards, heading_place="page"),
        Section("Sources disagree", [] if on else contradictions(rows), heading_place="page"),
    ]
    values = [*map(chip_values, published_chips), *map(announced_values, announced_chips)]
    return Document("Chips", values, sections, schema="chips/1")


def _row(chip: Accelerator) -> tuple[str, ...]:
    peaks = chip.peak_flop_per_s
    link = chip.link_bytes_per_s
    return (
        chip.name,
        "-" if chip.year is None else f"{chip.year:.0f}",
        tera(peaks.get("bf16")),
        tera(chip.clock_peak_flop_per_s.get("bf16")),
        tera(_first_peak(peaks, _FP8_PEAKS)),
        tera(_first_peak(peaks, _FP4_PEAKS)),
        f"{chip.memory_bytes / GIB:.4g}",
        f"{chip.memory_bytes_per_s / TERA:.3g}",
        "-" if link is None else f"{link / GIGA:,.4g}",
        "-" if chip.power_w is None else f"{chip.power_w:g}",
    )


def _first_peak(peaks: Mapping[str, Rate], names: tuple[str, ...]) -> Rate | None:
    return next((peaks[name] for name in names if name in peaks), None)


def chip_values(chip: Accelerator) -> dict[str, Any]:
    """A chip as JSON, each figure with its source."""
    peaks = "peak_flop_per_s peak_sparse_flop_per_s clock_peak_flop_per_s other_peak_flop_per_s"
    facts = "memory_bytes memory_bytes_per_s link_bytes_per_s power_w"
    return {
        **picked(chip, "name kind", is_announced=False),
        **picked(chip, "aliases", year=None if chip.year is None else int(chip.year)),
        **picked(chip, "cores"),
        **{name: _figure_values(rates) for name, rates in picked(chip, peaks).items()},
        **_figure_values(picked(chip, facts)),
        "note": chip.note,
    }


def announced_values(chip: Announced) -> dict[str, Any]:
    """An announced chip as JSON."""
    return {
        "name": chip.name,
        "kind": "neuron",
        "is_announced": True,
        "status": chip.status,
        "of": chip.compared_chip,
        "multiples": _figure_values(chip.multiples),
        "derived": _figure_values(chip.derived),
        "hybrids": [{"text": text, "source": source.source} for text, source in chip.hybrids],
    }


def _figure_values(figures: Mapping[str, Rate | None]) -> dict[str, Any]:
    """Figures as JSON, each with its evidence and source; None stays."""
    return {
        name: figure
        and {
            "value": float(figure),
            "evidence": figure.provenance.kind,
            "source": figure.provenance.source,
        }
        for name, figure in figures.items()
    }
