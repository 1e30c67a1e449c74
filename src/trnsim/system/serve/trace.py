"""Traces: a load as a file, JSON lines or CSV, one request a line.

    arrival         seconds from the start, not before the line above
    input           tokens of the prompt
    output          tokens of the answer
    prefix          optional: which prefix the prompt begins with
    prefix_tokens   optional: its tokens; without, the shortest prompt of that prefix is shared
    after           optional: the line number, among requests, of the one whose end brings this one

`write` gives JSON lines that `read` gives back bit for bit.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim import files
from trnsim.errors import BadInput, SourceLine
from trnsim.formatting import parse_number
from trnsim.system.serve.load import Load, Request

NEEDED: Final = ("arrival", "input", "output")
OPTIONAL: Final = ("prefix", "prefix_tokens", "after")
_FIX: Final = (
    'a line is {"arrival": 0.25, "input": 512, "output": 128}, or a row of a CSV file whose header '
    "names these columns"
)


def read(path: str | Path) -> Load:
    """The load that the file at `path` holds.

    Raises:
        BadInput: the file cannot be read, or a line of it is broken: which, and what is legal.
    """
    text = files.read_text(path, fix=_FIX)
    rows = _json_rows(path, text) if _is_json(text) else _csv_rows(path, text)
    found: list[Request] = []
    before_s = 0.0
    for number, row in rows:
        found.append(_Line(path, number, row).request(len(found), before_s))
        before_s = found[-1].arrival_s if found[-1].after is None else before_s
    if not found:
        raise BadInput(f"{path}: no requests", fix=_FIX)
    return _with_shared(found)


def write(path: str | Path, load: Load, arrivals_s: Sequence[float]) -> None:
    """Write `load` as JSON lines, each with when it came in a run.

    Raises:
        BadInput: the file cannot be written.
    """
    lines: list[str] = []
    for request, arrival_s in zip(load, arrivals_s, strict=True):
        row: dict[str, object] = {
            "arrival": arrival_s,
            "input": request.input_tokens,
            "output": request.output_tokens,
        }
        if request.prefix:
            row |= {"prefix": request.prefix, "prefix_tokens": request.prefix_tokens}
        if request.after is not None:
            row["after"] = request.after + 1
        lines.append(json.dumps(row))
    files.write(Path(path), ("\n".join(lines) + "\n").encode())


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[", '"', "")


def _json_rows(path: str | Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _fault(path, number, f"no JSON: {error}") from None
        if not isinstance(row, dict):
            raise _fault(path, number, f"a {type(row).__name__}, where a line holds an object")
        yield number, row


def _csv_rows(path: str | Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise _fault(path, reader.line_num, "not as many cells as the header has columns")
            yield reader.line_num, {name: cell for name, cell in row.items() if cell.strip()}
    except csv.Error as error:
        raise _fault(path, reader.reader.line_num, f"no CSV: {error}") from None


class _Line:
    """One line; its errors name it."""

    def __init__(self, path: str | Path, number: int, row: Mapping[str, Any]) -> None:
        self.path = path
        self.number = number
        self.row = row

    def request(self, place: int, before_s: float) -> Request:
        """The request that is `place`-th of the load and comes not before `before_s`."""
        unknown = [name for name in self.row if name not in (*NEEDED, *OPTIONAL)]
        if unknown:
            raise self.fault(f"{unknown[0]!r} is no field; legal: {', '.join(NEEDED + OPTIONAL)}")
        after = self.whole("after", 1) if "after" in self.row else None
        arrival_s = self.arrival_s()
        if after is not None and after > place:
            raise self.fault(f"after is {after}; legal: an earlier request, 1 to {place}")
        if after is None and arrival_s < before_s:
            raise self.fault(
                f"arrival is {arrival_s!r}, before the {before_s!r} of the request above; legal: "
                "arrivals in their order"
            )
        prefix = str(self.row.get("prefix", ""))
        shared = self.whole("prefix_tokens", 0) if "prefix_tokens" in self.row else -1
        inputs = self.whole("input", 1)
        if shared > inputs or (shared > 0 and not prefix):
            raise self.fault(f"prefix_tokens is {shared}; legal: 0 to the {inputs} of the input")
        return Request(
            arrival_s,
            inputs,
            self.whole("output", 1),
            prefix,
            shared if prefix else 0,
            None if after is None else after - 1,
        )

    def arrival_s(self) -> float:
        """The arrival: finite and not negative."""
        value = self.number_of("arrival")
        if not (value >= 0 and math.isfinite(value)):
            raise self.fault(
                f"arrival is {self.row['arrival']!r}; legal: seconds from the start, 0 or more"
            )
        return value

    def whole(self, name: str, least: int) -> int:
        """The whole number under `name`."""
        value = self.number_of(name)
        if not (value >= least and math.isfinite(value) and value == int(value)):
            raise self.fault(f"{name} is {self.row[name]!r}; legal: whole numbers from {least} on")
        return int(value)

    def number_of(self, name: str) -> float:
        """The number under `name`."""
        if name not in self.row:
            found = ", ".join(self.row) or "none"
            raise self.fault(f"no {name}; fields found: {found}")
        given = self.row[name]
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise self.fault(f"{name} is {given!r}; legal: a number")
        try:
            return parse_number(given) if isinstance(given, str) else float(given)
        except (ValueError, OverflowError) as error:
            raise self.fault(f"{name}: {error}") from None

    def fault(self, what: str) -> BadInput:
        """The error of this line."""
        return _fault(self.path, self.number, what)


def _fault(path: str | Path, number: int, what: str) -> BadInput:
    at = SourceLine(str(path), number)
    return BadInput(f"{at}: {what}", fix=_FIX, line=at)


def _with_shared(found: Sequence[Request]) -> Load:
    """The requests, where a prefix without a length is as long as its shortest prompt."""
    shortest: dict[str, int] = {}
    for one in found:
        if one.prefix_tokens < 0:
            least = shortest.get(one.prefix, one.input_tokens)
            shortest[one.prefix] = min(least, one.input_tokens)
    return tuple(
        Request(
            one.arrival_s,
            one.input_tokens,
            one.output_tokens,
            one.prefix,
            shortest[one.prefix] if one.prefix_tokens < 0 else one.prefix_tokens,
            one.after,
        )
        for one in found
    )
