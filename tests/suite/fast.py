"""`make test`: the checks, and every test but the slow ones, in parts of a process each.

A process of pytest imports and collects what it runs and no other does. One more part runs than
there are cores, since tests wait at times, and the longest begin first. What a part printed
appears when it ends; a part that fails stops no other.

Seconds of parts stand in build/test-costs, beside those of their tests: see costs.py.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import STDOUT, Popen

ROOT = Path(__file__).resolve().parents[2]
COSTS = ROOT / "build" / "test-costs"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Part:
    """A command, and what its environment has besides."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def check(name):
    """A part that is one of make's checks."""
    target = f"build/checked/{name}"
    return Part(name, (os.environ.get("MAKE", "make"), "--no-print-directory", target))


def tests(name, *arguments, **environment):
    """A part that is a run of pytest."""
    command = (sys.executable, "-m", "pytest", "--quiet", "-m", "not slow", *arguments)
    return Part(name, command, environment)


FOLDERS = {
    "commands": ("cli", "instance", "launch", "tools"),
    "xla": ("xla",),
    "torch": ("torch", "graph"),
    "lower": ("lower", "isa", "nki"),
    "planning": ("system", "place", "workload", "estimate", "decide", "profile", "price"),
    "compiler": ("compiler",),
}
"""Parts of tests by the folders that they run; what lies in none of them is a part by itself."""

CHECKED = ("test_tiny.py", "test_layout.py", "test_chip.py")
"""Tests that the check of the source runs, since a newcomer runs them first."""

STABLEHLO, ORACLE = "tests/jax/stablehlo", "tests/graph/test_oracle.py"

PARTS = (
    check("source"),
    tests("rest", "tests", *(f"--ignore=tests/{name}" for name in sum(FOLDERS.values(), CHECKED))),
    *(tests(name, *(f"tests/{one}" for one in folders)) for name, folders in FOLDERS.items()),
    check("mypy"),
    tests("oracle", ORACLE, STABLEHLO, JAX_PLATFORMS="cpu", JAX_DISABLE_MOST_OPTIMIZATIONS="1"),
    tests("jax", "tests/jax", "tests/jax_versions", f"--ignore={STABLEHLO}"),
)
"""In the order in which they begin: mistakes that are found soon, then the longest.

The second checker of types would be a seventh of the whole: `make check` and `make nightly` run it.
"""


@dataclass
class Running:
    """A part that has begun."""

    part: Part
    process: Popen
    log: Path
    began_s: float


def begin(part, folder):
    """Start a part, which prints to a file of its own."""
    kept = folder / part.name
    kept.mkdir(parents=True)
    log = kept / "printed.txt"
    environment = os.environ | ONE_THREAD | part.environment | {"TRNSIM_TEST_COSTS": str(kept)}
    with log.open("w", encoding="utf-8") as printed:
        process = Popen(part.command, cwd=ROOT, env=environment, stdout=printed, stderr=STDOUT)
    return Running(part, process, log, time.monotonic())


def ended(running):
    """The next part that ends, as a row of its seconds and status; it is no longer running."""
    pid, status, usage = os.wait4(-1, 0)
    done = running.pop(pid)
    done.process.returncode = os.waitstatus_to_exitcode(status)
    return done, {
        "kind": "part",
        "part": done.part.name,
        "wall_s": time.monotonic() - done.began_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "status": done.process.returncode,
    }


def run(parts, at_once, folder):
    """Run parts, several at once; a row for each, in the order in which they ended."""
    waiting, running, rows = list(parts), {}, []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                begun = begin(waiting.pop(0), folder)
                running[begun.process.pid] = begun
            done, row = ended(running)
            rows.append(row)
            (folder / f"{done.part.name}.jsonl").write_text(json.dumps(row) + "\n")
            print(f"--- {done.part.name}", done.log.read_text(encoding="utf-8"), sep="\n")
            print(said(row), flush=True)
    finally:
        for left in running.values():
            left.process.terminate()
            left.process.wait()
    return rows


def said(row):
    """What became of a part, in a line."""
    outcome = f"exit {row['status']}" if row["status"] else "passed"
    return f"{row['part']}: {outcome}, {row['wall_s']:.0f} s, {row['cpu_s']:.0f} s of CPU"


def untracked():
    """Files of the checkout that git neither tracks nor ignores; none where git has no checkout."""
    command = (shutil.which("git") or "git", "ls-files", "--others", "--exclude-standard")
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return set()
    return set(listed.stdout.splitlines())


def main():
    """Run every part and say what each took; a file that tests leave in the checkout fails."""
    began_s, before = time.monotonic(), untracked()
    mine = getattr(os, "sched_getaffinity", None)  # not every system has it
    cores = len(mine(0)) if mine else os.cpu_count() or 1
    rows = run(PARTS, cores + 1, COSTS)
    print("---", *map(said, rows), f"all: {time.monotonic() - began_s:.0f} s", sep="\n")
    left = sorted(untracked() - before)
    if left:
        print("tests left files in the checkout:", *left, sep="\n")
    return bool(left) or any(row["status"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
