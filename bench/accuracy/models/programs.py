"""What the programs of published rows take: programs.json, which `make accuracy` writes.

Of each row: seconds of the device without exchanges, of launches, of bytes over links, and of an
optimizer's update; how many exchanges it has, whose latency is fitted apart; its bound and the side
that binds; and the digest of the sources that made them. Pages read this file, and say how many
rows are of other sources than today's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from model_rows import cases

from trnsim.files import write

FILE = Path(__file__).with_name("programs.json")
DIGITS = 6
SHORT = 16
"""Digits of a digest that are kept."""


@dataclass(frozen=True)
class Found:
    """What a row's program takes.

    Attributes:
        device_s: seconds of the device, without exchanges.
        launch_s: of its launches.
        links_s: of the bytes of its exchanges.
        update_s: of an update by the optimizer.
        exchanges: how many it has.
        bound_s: no time can be below.
        binds: "products", "HBM" or "links".
        sources: the digest of the sources that made it.
    """

    device_s: float
    launch_s: float
    links_s: float
    update_s: float
    exchanges: float
    bound_s: float
    binds: str
    sources: str


@dataclass(frozen=True)
class Program:
    """A case with what its program takes; it is judged like a `model_fit.Row`.

    Attributes:
        case: the case.
        found: what was found.
    """

    case: object
    found: Found

    @property
    def exchanges(self):
        """How many exchanges it has."""
        return self.found.exchanges

    @property
    def bound(self):
        """(seconds, what binds)."""
        return self.found.bound_s, self.found.binds

    @property
    def alone_s(self):
        """All but exchanges."""
        return self.found.device_s + self.found.launch_s + self.found.update_s

    def exchanges_s(self, latency_s):
        """Exchanges with a latency of each."""
        return self.found.links_s + self.found.exchanges * latency_s

    def seconds(self, latency_s):
        """The row's time with a latency of small exchanges."""
        return self.alone_s + self.exchanges_s(latency_s)


def found_of(row, sources):
    """What is kept of a `model_fit.Row`."""
    pairs = list(zip(row.case.parts, row.parts, strict=True))
    gradients = row.update_s(1.0) - row.update_s(0.0)  # one exchange, or none
    count = row.exchanges + gradients
    device_s = sum(part.times * one.seconds for part, one in pairs)
    launch_s = sum(part.times * one.launch_s for part, one in pairs)
    update_s = row.update_s(0.0)
    bound_s, binds = row.bound
    links_s = row.seconds(0.0) - device_s - launch_s - update_s
    numbers = (device_s, launch_s, max(links_s, 0.0), update_s, count, bound_s)
    return Found(*(float(f"{one:.{DIGITS}g}") for one in numbers), binds, sources[:SHORT])


def read():
    """(what was found, why not) by row id; both empty before the first run."""
    if not FILE.exists():
        return {}, {}
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Found(**one) for name, one in kept["rows"].items()}, kept["refused"]


def keep(rows, refused):
    """Write what was found, a line a row, in the order of the published ones."""
    order = [case.row["id"] for case in cases()]
    lines = [f'"{name}": {json.dumps(asdict(rows[name]))}' for name in order if name in rows]
    words = [f'"{name}": {json.dumps(refused[name])}' for name in order if name in refused]
    text = '{{"rows": {{\n{}\n}}, "refused": {{\n{}\n}}}}\n'
    write(FILE, text.format(",\n".join(lines), ",\n".join(words)))


def programs():
    """All rows whose programs are known."""
    rows, _ = read()
    return [Program(case, rows[case.row["id"]]) for case in cases() if case.row["id"] in rows]
