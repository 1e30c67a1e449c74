"""``trnsim plan diff``: what changed between two answers of a plan or a decision, and why."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim import files
from trnsim.cli.plan.shared import AsJson
from trnsim.cli.terminal import echo
from trnsim.decide.difference import compare
from trnsim.formatting import amount, clipped, text_table

if TYPE_CHECKING:
    from trnsim.decide.difference import Change, Comparison, Difference

_SHOWN_PARTS: Final = 5
_WIDTH: Final = 36
_SHOWN: Final = 0.0005
"""The least relative change of a figure that has a line."""


def diff(
    old: Annotated[Path, typer.Argument(help="An answer in JSON.", metavar="OLD.json")],
    new: Annotated[Path, typer.Argument(help="A later one.", metavar="NEW.json")],
    as_json: AsJson = False,
) -> None:
    """What changed between two answers of one command, and which inputs and parts explain it.

    Takes what trnsim plan train, serve, infer and collective print with --json, and the decision
    that trnsim assess writes.

    Example: trnsim plan diff march.json june.json
    """
    found = compare(files.read_json(old), files.read_json(new), (str(old), str(new)))
    if as_json:
        echo(json.dumps(_plain(found), indent=1))
        return
    parts = [_one(each) for each in found.differences]
    alone = ((old, found.only_old), (new, found.only_new))
    parts += [f"only in {path}: {', '.join(names)}" for path, names in alone if names]
    echo("\n\n".join(parts))


def _plain(found: Comparison) -> dict[str, object]:
    """The comparison as JSON, with the ratio of each figure."""
    made = asdict(found)
    for plain, each in zip(made["differences"], found.differences, strict=True):
        for row, change in zip(plain["figures"], each.figures, strict=True):
            row["ratio"] = change.ratio
    return made


def _one(found: Difference) -> str:
    """One platform or workload: its figures, then what explains them."""
    if found.is_equal:
        return f"{found.name}: nothing changed"
    lines = [f"{found.name}: {len(found.figures)} figures, {len(found.causes)} inputs and choices"]
    shown = [one for one in found.figures if one.ratio is None or abs(one.ratio - 1) >= _SHOWN]
    if shown:
        rows = [
            (one.path, _value(one.old), _value(one.new), _percent(one.ratio), _doubt(one))
            for one in shown
        ]
        lines.append(text_table(("figure", "old", "new", "change", "P10 to P90 of old"), rows))
    if len(shown) < len(found.figures):
        small = len(found.figures) - len(shown)
        noun = "1 figure changes" if small == 1 else f"{small} figures change"
        lines.append(f"{noun} by less than {_SHOWN:.2%}")
    lines += _why(found)
    return "\n".join(lines)


def _why(found: Difference) -> list[str]:
    """Inputs and choices, the parts of the time, and the factors of the cost."""
    if not found.causes:
        return [
            "why: no input differs, so trnsim itself does: compare the versions that wrote them"
        ]
    lines = ["why:"]
    lines += [f"  {one.path}: {_value(one.old)} -> {_value(one.new)}" for one in found.causes]
    grown = [f"{path} {change:+.4g} s" for path, change in found.parts_s.items() if change]
    if grown:
        rest = f" and {len(grown) - _SHOWN_PARTS} more" if len(grown) > _SHOWN_PARTS else ""
        lines.append(f"  time by cause: {', '.join(grown[:_SHOWN_PARTS])}{rest}")
    factors = [f"{name} {_percent(ratio)}" for name, ratio in found.cost.items()]
    if factors:
        lines.append(f"  cost: {', '.join(factors)}")
    return lines


def _value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return amount(value)
    return clipped(value if isinstance(value, str) else json.dumps(value), _WIDTH)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio - 1:+.1%}"


def _doubt(change: Change) -> str:
    if change.within is None:
        return ""
    return "within" if change.within else "outside"
