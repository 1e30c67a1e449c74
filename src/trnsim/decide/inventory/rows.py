"""A row of an inventory as a workload; whatever it cannot be is refused with file, line, field."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.cells import Cells
from trnsim.decide.inventory import fields
from trnsim.decide.inventory.workload import (
    KINDS,
    VOLUME_UNITS,
    Current,
    Kind,
    Shape,
    Slo,
    VolumeUnit,
    Workload,
)
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.place.machine import platforms
from trnsim.price.quotes import KINDS as PURCHASE_KINDS
from trnsim.price.quotes import today
from trnsim.price.regions import REGION, is_region
from trnsim.workload import config
from trnsim.workload.architecture import Architecture

_UNITS_OF: Final[dict[Kind, tuple[VolumeUnit, ...]]] = {
    "train": ("tokens_per_month", "gpu_hours"),
    "serve": ("tokens_per_month", "gpu_hours"),
    "infer": ("items_per_month", "gpu_hours"),
}
_MOST: Final[dict[VolumeUnit, float]] = {
    "tokens_per_month": fields.MOST_VOLUME,
    "items_per_month": fields.MOST_VOLUME,
    "gpu_hours": fields.MOST_GPU_HOURS,
}
_TRUTH: Final = {"yes": True, "no": False}


def workloads(path: Path, rows: list[Cells], known: Catalogue | None = None) -> list[Workload]:
    """A workload for each row of the inventory at `path`.

    Raises:
        BadInput: there is none, a name stands twice, or a cell is not legal.
    """
    if not rows:
        raise BadInput(f"{path}: no workloads", fix="add a row for each workload")
    _check_names(rows)
    return [workload(path, row, known) for row in rows]


def _check_names(rows: list[Cells]) -> None:
    first: dict[str, int] = {}
    for row in rows:
        name = row.text("workload")
        if name in first:
            raise row.refused("workload", f"the name stands in line {first[name]} too")
        first[name] = row.line


def workload(path: Path, row: Cells, known: Catalogue | None = None) -> Workload:
    """The workload that `row` of the inventory at `path` describes.

    Raises:
        BadInput: a cell is not legal: file, line, field, legal values.
    """
    known = known or catalogue()
    kind: Kind = next(one for one in KINDS if one == row.one_of("kind", KINDS))
    volume, unit = _volume(row, kind)
    model_path = inside(path, row, "model_config", row.text("model_config"))
    return Workload(
        name=row.text("workload"),
        kind=kind,
        model=_model(row, model_path),
        model_path=model_path,
        volume=volume,
        volume_unit=unit,
        current=current(row, known),
        line=SourceLine(row.file, row.line),
        shape=_shape(row),
        slo=_slo(row),
        deadline_hours=_number(row, "deadline_hours", fields.MOST_HOURS),
        sources=tuple(inside(path, row, "sources", one) for one in row.items("sources")),
        staff_weeks=_from(row, "staff_weeks", 0, fields.MOST_WEEKS),
        other_clouds=_clouds(row),
        is_portability_needed=_truth(row, "portability_needed") is True,
        framework=row.one_of("framework", fields.FRAMEWORKS) if "framework" in row else None,
        is_committed_to_aws=_truth(row, "committed_to_aws"),
        peak_ratio=_from(row, "peak_ratio", 1, fields.MOST_RATIO),
        as_of=_day(row, known),
        assumptions=_assumptions(row),
    )


def _volume(row: Cells, kind: Kind) -> tuple[float, VolumeUnit]:
    """The one volume of a row, and its unit."""
    given = [unit for unit in VOLUME_UNITS if unit in row]
    legal = _UNITS_OF[kind]
    if len(given) != 1:
        what = " and ".join(given) or "no volume"
        raise BadInput(
            f"{row.file}:{row.line}: {what} given; legal: exactly one of {' and '.join(legal)}",
            line=SourceLine(row.file, row.line),
        )
    unit = given[0]
    if unit not in legal:
        raise row.refused(unit, f"not of kind {kind}; legal: {' or '.join(legal)}")
    return row.number(unit, above=0, at_most=_MOST[unit]), unit


def inside(path: Path, row: Cells, field: str, given: str) -> Path:
    """The path `given` in a cell, relative to the inventory at `path` and not out of its folder.

    Raises:
        BadInput: it leads out of the folder, or nothing is there.
    """
    folder = path.parent.resolve()
    try:
        target = (folder / given).resolve()
        exists = target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # no such path can be: too long, a loop
        raise row.refused(field, f"no path: {error}") from error
    if not target.is_relative_to(folder):
        raise row.refused(field, f"it leads out of the inventory's folder {path.parent}")
    if not exists:
        raise row.refused(field, f"no such file in {path.parent}", "paths are relative to it")
    return path.parent / given


def _model(row: Cells, path: Path) -> Architecture:
    try:
        return config.read(path)
    except EmulatorError as error:
        raise row.refused("model_config", error.reason, error.fix) from error


def current(row: Cells, known: Catalogue) -> Current:
    """What a row says about the machine of today."""
    region = row.values.get("region")
    if region is not None and not is_region(region):
        raise row.refused("region", f"no region; legal: {REGION}")
    return Current(
        instance=instance(row, known),
        count=_whole(row, "current_count", fields.MOST_COUNT),
        kind=row.one_of("purchase_kind", PURCHASE_KINDS) if "purchase_kind" in row else "on_demand",
        usd_per_month=row.number("usd_per_month", above=0, at_most=fields.MOST_USD),
        region=region,
    )


def instance(row: Cells, known: Catalogue) -> str:
    """The catalogue's name of the instance in a row; short names such as p5 stand for one too."""
    given = row.text("current_instance")
    name = platforms().get(given, given)
    if name not in known.instances:
        return row.one_of("current_instance", tuple(known.instances))
    return name


def _shape(row: Cells) -> Shape:
    return Shape(
        sequence=_whole(row, "sequence", fields.MOST_TOKENS),
        input_len=_whole(row, "input_len", fields.MOST_TOKENS),
        output_len=_whole(row, "output_len", fields.MOST_TOKENS),
        batch=_whole(row, "batch", fields.MOST_COUNT),
        image=_whole(row, "image", fields.MOST_PIXELS),
        steps=_whole(row, "steps", fields.MOST_COUNT),
    )


def _slo(row: Cells) -> Slo:
    stated = Slo(
        ttft_s=_number(row, "ttft_s", fields.MOST_S),
        tpot_s=_number(row, "tpot_s", fields.MOST_S),
        latency_s=_number(row, "latency_s", fields.MOST_S),
    )
    percentile = _number(row, "percentile", fields.MOST_PERCENT)
    return stated if percentile is None else replace(stated, percentile=percentile)


def _number(row: Cells, field: str, at_most: float) -> float | None:
    return row.number(field, above=0, at_most=at_most) if field in row else None


def _from(row: Cells, field: str, least: float, at_most: float) -> float | None:
    return row.number_from(field, least, at_most=at_most) if field in row else None


def _whole(row: Cells, field: str, at_most: int) -> int | None:
    return row.whole(field, above=0, at_most=at_most) if field in row else None


def _truth(row: Cells, field: str) -> bool | None:
    return _TRUTH[row.one_of(field, fields.YES_NO)] if field in row else None


def _day(row: Cells, known: Catalogue) -> date | None:
    return row.day("as_of", latest=today(known)) if "as_of" in row else None


def _clouds(row: Cells) -> tuple[str, ...]:
    for given in (found := row.items("other_clouds")):
        if given not in fields.CLOUDS:
            raise row.refused(
                "other_clouds", f"{given!r} is not known; legal: {', '.join(fields.CLOUDS)}"
            )
    return found


def _assumptions(row: Cells) -> tuple[str, ...]:
    """What is taken for granted where a cell is empty."""
    found: list[str] = []
    if "purchase_kind" not in row:
        found.append("bought on demand: the inventory names no purchase_kind")
    has_limit = {"ttft_s", "tpot_s", "latency_s"} & row.values.keys()
    if has_limit and "percentile" not in row:
        found.append(
            "limits of latency hold for 99 % of requests: the inventory names no percentile"
        )
    return tuple(found)
