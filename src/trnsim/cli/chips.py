"""``trnsim chips``: chips, GPUs and TPUs side by side, announced ones, contradictions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trnsim.arch.catalogue import catalogue
from trnsim.cli.hardware_text import GIB, GIGA, TERA, announced_card, contradictions, tera
from trnsim.cli.options import AsJson, parser
from trnsim.cli.terminal import echo
from trnsim.formatting import text_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.arch.catalogue import Accelerator, Announced
    from trnsim.facts import Rate

app = parser()

_FP8 = ("fp8", "fp8_e4", "mxfp8", "cfp8")
_FP4 = ("fp4", "mxfp4")


@app.command()
def chips(*, as_json: AsJson = False) -> None:
    """List Trainium, Inferentia, GPUs and TPUs, with peaks, memory and contradictions.

    Peaks are published dense TFLOP/s; beside them, what the array multiplies at its clock. Where
    sources disagree both readings are listed, and the one that is used.

    Example: trnsim chips --json
    """
    rows = catalogue()
    known = [*rows.chips.values(), *rows.gpus.values()]
    if as_json:
        listed = [_plain(chip) for chip in known]
        listed += [_plain_announced(chip) for chip in rows.announced.values()]
        echo(json.dumps(listed, indent=1))
        return
    header = ("chip", "year", "bf16", "clock", "fp8", "fp4", "GiB", "TB/s", "link GB/s", "W")
    echo(text_table(header, [_row(chip) for chip in known]))
    echo("\nbf16, fp8, fp4: published dense TFLOP/s; clock: bf16 as array x clock.")
    echo("fp8 of Trainium1 and Inferentia2 is cFP8, of Trainium3 MXFP8; of TPU v5e INT8.\n")
    for chip in rows.announced.values():
        echo("\n".join(announced_card(chip)))
    echo()
    echo("\n".join(contradictions(rows)))


def _row(chip: Accelerator) -> tuple[str, ...]:
    peaks = chip.peak_flop_per_s
    link = chip.link_bytes_per_s
    return (
        chip.name,
        "-" if chip.year is None else f"{chip.year:.0f}",
        tera(peaks.get("bf16")),
        tera(chip.clock_peak_flop_per_s.get("bf16")),
        tera(_first(peaks, _FP8)),
        tera(_first(peaks, _FP4)),
        f"{chip.memory_bytes / GIB:.4g}",
        f"{chip.memory_bytes_per_s / TERA:.3g}",
        "-" if link is None else f"{link / GIGA:,.4g}",
        "-" if chip.power_w is None else f"{chip.power_w:g}",
    )


def _first(peaks: Mapping[str, Rate], names: tuple[str, ...]) -> Rate | None:
    return next((peaks[name] for name in names if name in peaks), None)


def _plain(chip: Accelerator) -> dict[str, Any]:
    """A chip as JSON, each figure with its source."""
    return {
        "name": chip.name,
        "kind": chip.kind,
        "is_announced": False,
        "aliases": chip.aliases,
        "year": None if chip.year is None else int(chip.year),
        "cores": chip.cores,
        "peak_flop_per_s": _sourced(chip.peak_flop_per_s),
        "peak_sparse_flop_per_s": _sourced(chip.peak_sparse_flop_per_s),
        "clock_peak_flop_per_s": _sourced(chip.clock_peak_flop_per_s),
        "other_peak_flop_per_s": _sourced(chip.other_peak_flop_per_s),
        "memory_bytes": _fact(chip.memory_bytes),
        "memory_bytes_per_s": _fact(chip.memory_bytes_per_s),
        "link_bytes_per_s": _fact(chip.link_bytes_per_s),
        "power_w": _fact(chip.power_w),
        "note": chip.note,
    }


def _plain_announced(chip: Announced) -> dict[str, Any]:
    return {
        "name": chip.name,
        "kind": "neuron",
        "is_announced": True,
        "status": chip.status,
        "of": chip.of,
        "multiples": _sourced(chip.multiples),
        "derived": _sourced(chip.derived),
        "hybrids": [{"text": text, "source": one.source} for text, one in chip.hybrids],
    }


def _sourced(facts: Mapping[str, Rate]) -> dict[str, Any]:
    return {name: _fact(fact) for name, fact in facts.items()}


def _fact(fact: Rate | None) -> dict[str, Any] | None:
    if fact is None:
        return None
    made = fact.provenance
    return {"value": float(fact), "evidence": made.kind.value, "source": made.source}
