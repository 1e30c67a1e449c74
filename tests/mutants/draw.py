"""Eight faults a room, drawn once by a seed and kept in drawn.json.

A fault stays drawn whatever the tests say of it. Only where its statement is gone from the source
does the next of the room's order come in its place, by `mutants.py --draw`.
"""

import json
import random
from pathlib import Path

from faults import Fault, place_of, places, words

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trnsim"
DRAWN = Path(__file__).parent / "drawn.json"
ROOMS = ("graph", "lower", "compiler", "workload", "timing", "isa/dma", "hazards")
EACH = 8
SEED = 1


def source_of(file):
    """A file of the source as text."""
    return (SOURCE / file).read_text(encoding="utf-8")


def faults_of(room):
    """Every fault of a room, by kind."""
    found = {}
    for path in sorted((SOURCE / room).rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        for place in places(source_of(file), file):
            found.setdefault(place.fault.kind, []).append(place.fault)
    return found


def ordered(room, by_kind):
    """The faults of a room in the order of the draw: one of each kind in turn, by chance."""
    rng = random.Random(f"{SEED} {room}")  # noqa: S311  a draw, no secret
    kinds = sorted(by_kind)
    rng.shuffle(kinds)
    shuffled = {kind: rng.sample(sorted(by_kind[kind]), len(by_kind[kind])) for kind in kinds}
    turns = max(map(len, shuffled.values()))
    return [
        shuffled[kind][turn]
        for turn in range(turns)
        for kind in kinds
        if turn < len(shuffled[kind])
    ]


def drawn():
    """The faults that were drawn, by room."""
    rooms = json.loads(DRAWN.read_text(encoding="utf-8")) if DRAWN.exists() else {}
    return {room: [Fault(**row) for row in rooms.get(room, ())] for room in ROOMS}


def draw():
    """Fill each room up to eight faults of different statements; what still stands is kept."""
    rooms = drawn()
    for room, faults in rooms.items():
        kept = [fault for fault in faults if place_of(fault, source_of(fault.file))]
        for fault in ordered(room, faults_of(room)):
            if len(kept) == EACH:
                break
            if not any(_same_statement(fault, other) for other in kept):
                kept.append(fault)
        rooms[room] = kept
    rows = {room: [words(fault) for fault in faults] for room, faults in rooms.items()}
    DRAWN.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _same_statement(one, other):
    return (one.file, one.function, one.statement) == (other.file, other.function, other.statement)
