"""Published halves of layers on Trainium2 by both methods: docs/generated/accuracy-halves.md.

usage: halves.py [--only WORD] [--patience SECONDS] [--kept]

Each half is answered by the few constants of plans and by its compiled program. Times of programs
are kept in halves.json, so that a stopped run goes on where it was. `--only` compiles halves whose
family or row has the word, `--patience` leaves out what takes longer to compile, `--kept` takes
what is kept, also by other sources than today's. Without `--only` the page is written.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "accuracy" / "models"))
from half import published
from half_page import page
from model_run import digest

from trnsim.errors import EmulatorError
from trnsim.files import write

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = HERE / "halves.json"
PAGE = ROOT / "docs" / "generated" / "accuracy-halves.md"
FIELDS = {"time_s", "launch_s", "why"}
"""What is kept of a half."""
DECIDE = (
    *("arch", "compiler", "dtypes", "graph", "isa", "lower", "memory", "nki", "program", "timing"),
    *("torch/models", "torch/compile", "runs.py"),
)
"""Rooms that decide what a program takes."""


class Known:
    """What was compiled already, and by which sources."""

    def __init__(self, patience_s, is_kept):
        self.patience_s, self.is_kept = patience_s, is_kept
        signal.signal(signal.SIGALRM, _out_of_time)
        self.sources = digest(DECIDE, (HERE / "half_program.py",))
        kept = kept_halves()
        self.halves = kept["halves"] if is_kept or kept["sources"] == self.sources else {}

    def fill(self, one):
        """The program's time of a published half, or why there is none."""
        name = one.ids[0]
        if name not in self.halves and self.is_kept:
            one.why = "not compiled in this run"
            return
        found = self.halves.get(name) or self._compiled(one.half)
        one.program_s, one.launch_s, one.why = found["time_s"], found["launch_s"], found["why"]
        if not self.is_kept and not found.get("is_late"):
            self.halves[name] = found
            made = {"sources": self.sources, "halves": dict(sorted(self.halves.items()))}
            write(KEPT, f"{json.dumps(made, indent=1)}\n")

    def _compiled(self, half):
        from half_program import compiled  # noqa: PLC0415  --kept needs no PyTorch

        signal.alarm(self.patience_s)
        try:
            time_s, launch_s = compiled(half)
        except EmulatorError as error:
            return {"time_s": None, "launch_s": 0.0, "why": str(error).splitlines()[0]}
        except TimeoutError:
            why = f"not compiled within {self.patience_s} s"
            return {"time_s": None, "launch_s": 0.0, "why": why, "is_late": True}
        finally:
            signal.alarm(0)
        return {"time_s": time_s, "launch_s": launch_s, "why": ""}


def kept_halves():
    """What earlier runs kept; nothing where the file is cut off or has another shape."""
    nothing = {"sources": "", "halves": {}}
    try:
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
        rows = list(kept["halves"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return nothing
    is_whole = all(isinstance(row, dict) and row.keys() >= FIELDS for row in rows)
    return kept if is_whole and "sources" in kept else nothing


def _out_of_time(*_):
    raise TimeoutError


def asked():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=int, default=0, help="seconds for a half; 0: any")
    parser.add_argument("--kept", action="store_true")
    return parser.parse_args()


def main():
    """Answer every half and write the page; fails where a constant is not that of its fit."""
    given = asked()
    found, left = published()
    known = Known(given.patience, given.kept)
    chosen = [one for one in found if given.only in f"{one.family} {' '.join(one.ids)}"]
    for number, one in enumerate(sorted(chosen, key=lambda one: one.published_s), 1):
        started = time.monotonic()
        known.fill(one)
        spent = time.monotonic() - started
        print(f"{number}/{len(chosen)} {one.ids[0]} {one.why} {spent:.1f} s", file=sys.stderr)
    if given.only:
        return 0
    text, wrong = page(found, left)
    write(PAGE, text)
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
