"""Trace files: a load as JSON lines or CSV, one request per line with the fields of `TraceRow`.

`read` restores exactly the load that `write` wrote.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.document.values import json_line
from trnsim.quantities import is_fraction
from trnsim.reader import FileRecord, between, declared, fault, read_rows
from trnsim.system.serve.load import Load, Request

_FIX: Final = (
    'a line is {"arrival": 0.25, "input": 512, "output": 128}, or a row of a CSV file whose header '
    "names these columns"
)


_MOST_S: Final = 1e10
"""Largest time of an arrival: sums of larger ones would not hold milliseconds."""


@dataclass(frozen=True, kw_only=True)
class TraceRow(FileRecord):
    """A request of a trace."""

    arrival: float = between(
        "when it comes after the start, not before the row above", 0, _MOST_S, unit="s"
    )
    input: int = declared(help="tokens of the prompt", unit="tokens", minimum=1)
    output: int = declared(help="tokens of the answer", unit="tokens", minimum=1)
    prefix: str | int = declared("", help="which prefix the prompt begins with")
    prefix_tokens: int | None = declared(
        None,
        help="tokens of that prefix; those of the shortest prompt that begins with it if empty",
        unit="tokens",
        minimum=0,
    )
    after: int | None = declared(
        None, help="number, among requests, of the one whose end brings this one", minimum=1
    )

    def request(self, earlier_requests: int, last_arrival_s: float) -> Request:
        """The request of this row.

        Args:
            earlier_requests: number of requests in the rows above.
            last_arrival_s: the last arrival in the rows above, before which it must not arrive.

        Raises:
            BadInput: it arrives too early, waits for no request above, or its prefix is too long.
        """
        if self.after is not None and self.after > earlier_requests:
            raise self.refused("after", f"legal: an earlier request, 1 to {earlier_requests}")
        if self.after is None and self.arrival < last_arrival_s:
            raise self.refused(
                "arrival",
                f"before the {last_arrival_s!r} of the request above; legal: in their order",
                "sort the rows by arrival",
            )
        prefix = str(self.prefix)  # a prefix may be called 0
        prefix_tokens = -1 if self.prefix_tokens is None else self.prefix_tokens
        if prefix_tokens > self.input or (prefix_tokens > 0 and not prefix):
            raise self.refused(
                "prefix_tokens", f"legal: 0 to the {self.input} of the input, with a prefix"
            )
        return Request(
            self.arrival,
            self.input,
            self.output,
            prefix,
            prefix_tokens if prefix else 0,
            None if self.after is None else self.after - 1,
        )


def read(path: str | Path) -> Load:
    """The load that the file at `path` holds.

    Raises:
        BadInput: for a file that cannot be read, or an illegal line.
    """
    requests: list[Request] = []
    last_arrival_s = 0.0
    for row in read_rows(TraceRow, path, _FIX):
        requests.append(row.request(len(requests), last_arrival_s))
        last_arrival_s = requests[-1].arrival_s if requests[-1].after is None else last_arrival_s
    if not requests:
        raise fault(path, "no requests", fix=_FIX)
    return _with_prefix_tokens(requests)


def write(path: str | Path, load: Load, arrivals_s: Sequence[float]) -> None:
    """Write `load` with the arrivals `arrivals_s` of a run, in seconds.

    A name that ends in .csv is written as CSV, any other as JSON lines. CSV has escapes in place of
    lone surrogates, which a prefix of a JSON line may have.

    Raises:
        BadInput: the file cannot be written.
    """
    rows: list[dict[str, object]] = []
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
        rows.append(row)
    is_csv = Path(path).suffix.lower() == ".csv"
    text = _as_csv(rows) if is_csv else "".join(f"{json_line(row)}\n" for row in rows)
    files.write(Path(path), text.encode(errors="backslashreplace"))


def _as_csv(rows: Sequence[dict[str, object]]) -> str:
    """Rows with a column for each key that any of them has."""
    text = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        arrival = repr(row["arrival"])
        is_certain = is_fraction(arrival) or "." not in arrival
        writer.writerow(row | {"arrival": arrival if is_certain else f"{arrival}0"})
    return text.getvalue()


def _with_prefix_tokens(requests: Sequence[Request]) -> Load:
    """The requests; a prefix without a length gets the length of its shortest prompt."""
    shortest_prompts: dict[str, int] = {}
    for request in requests:
        if request.prefix_tokens < 0:
            shortest_tokens = shortest_prompts.get(request.prefix, request.input_tokens)
            shortest_prompts[request.prefix] = min(shortest_tokens, request.input_tokens)
    return tuple(
        Request(
            request.arrival_s,
            request.input_tokens,
            request.output_tokens,
            request.prefix,
            shortest_prompts[request.prefix]
            if request.prefix_tokens < 0
            else request.prefix_tokens,
            request.after,
        )
        for request in requests
    )
