"""`make upstream`: run the public suites from local clones and write docs/generated/conformance.md.

FOLDER holds the clones, named as in suites.py; nothing of theirs is kept. The outcome of each case
is kept in build/conformance as the case ends: a run that was stopped goes on where it stopped, as
long as neither the clone nor the emulator has another commit. The page has all that has run; rows
of suites that were run elsewhere stay as they are.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from ledger import read
from suites import NOT_YET, PINNED, ROOT, SUITES
from suites_page import COLUMNS, Result, page, table, with_rows

KEPT = ROOT / "build" / "conformance"
ABOVE_KERNELS = (
    *("cli", "graph", "price", "profile", "demo", "system", "torch"),
    *("workload", "estimate"),
)
"""Rooms of our src that no kernel of a suite runs through."""
PAGE = ROOT / "docs" / "generated" / "conformance.md"


def git(folder, *arguments):
    """What git says of a folder."""
    command = [shutil.which("git") or "git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def commit(folder, clone):
    """A clone's commit, short."""
    return git(folder / clone, "rev-parse", "--short=8", "HEAD")


def emulator():
    """The last commit of the rooms that kernels run through, and whether they were edited since."""
    rooms = ["src", *(f":!src/trnsim/{room}" for room in ABOVE_KERNELS)]
    edited = git(ROOT, "status", "--porcelain", "--", *rooms)
    return git(ROOT, "log", "-1", "--format=%h", "--", *rooms) + ("+" if edited else "")


def opened(suite, folder, kept=KEPT):
    """The suite's ledger: what is there if it is of the same commits, else a new one."""
    path = kept / f"{suite.name}.jsonl"
    head = {
        "suite": suite.name,
        "commit": ", ".join(commit(folder, clone) for clone in suite.clones),
        "emulator": emulator(),
    }
    if read(path)[:1] != [head]:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(head) + "\n", encoding="utf-8")
        unfinished.replace(path)
    return path


def run(suite, folder, number, options=(), ledger=None):
    """Run what the suite's ledger does not have yet; pytest prints each case and how many."""
    kept = ["-p", "ledger", f"--ledger={ledger or opened(suite, folder)}", *options]
    if number is not None and "sweeps" in suite.name:
        kept.append(f"--sample={number}")
    shown = ["-v", "-o", "console_output_style=count", "--tb=no", "-rN", "--show-capture=no"]
    warned = ["-W", "always", "--disable-warnings"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            *(*kept, *shown, *warned, *suite.arguments),
        ],
        cwd=folder / suite.cwd if suite.cwd else ROOT,
        env=suite.variables(folder),
        check=False,
    )


def write_page(folder):
    """The page, from the ledgers; without all of them, the rows of those there are."""
    results = [Result(suite, read(KEPT / f"{suite.name}.jsonl")) for suite in SUITES]
    found = [result for result in results if result.head]
    if len(found) < len(results) and PAGE.exists():
        text = with_rows(PAGE.read_text(encoding="utf-8"), found)
    else:
        not_yet = [(group, clone, commit(folder, clone), what) for group, clone, what in NOT_YET]
        text = page(results, not_yet)
    unfinished = PAGE.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(PAGE)


def main():
    """Run the suites whose names begin with one of those given, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the clones lie")
    names = [suite.name for suite in (*SUITES, *PINNED)]
    parser.add_argument("suites", nargs="*", help=f"beginnings of {', '.join(names)}; default all")
    parser.add_argument("--sweeps", type=int, help="run this many of the sweeps, not all")
    given = parser.parse_args()
    folder = given.folder.resolve()
    beginnings = tuple(given.suites) or "D"
    chosen = [s for s in (*SUITES, *PINNED) if s.name.startswith(beginnings)]
    if not chosen:
        parser.error(f"no suite begins with {given.suites}; there are {', '.join(names)}")
    for suite in chosen:
        run(suite, folder, given.sweeps)
    if any(suite in SUITES for suite in chosen):
        write_page(folder)
        print(PAGE.read_text(encoding="utf-8"))
    rows = [Result(s, read(KEPT / f"{s.name}.jsonl")).row() for s in chosen if s in PINNED]
    if rows:
        print(table(COLUMNS, rows))


if __name__ == "__main__":
    main()
