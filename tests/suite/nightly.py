"""`make nightly`: every test, slow ones included, then the longer checks; a stopped run goes on.

What passed stands in build/nightly, under a digest of the source: a change of any tracked file
begins anew. The table at the end has what each part took, in all runs of it.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "nightly"
WORKERS = ("--numprocesses=2", "--dist=worksteal")
TESTS = ("-m", "pytest", "-q", "--hypothesis-profile=nightly", *WORKERS)
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Part:
    """A command of Python, and whether it is of tests, which go on where they stopped.

    Attributes:
        name: its line in the table.
        arguments: those of Python.
        environment: variables besides ours.
        venv: the name of the `.venv-NAME` that runs it; "" for that of the nightly run.
    """

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    venv: str = ""

    @property
    def python(self):
        return str(ROOT / f".venv-{self.venv}/bin/python") if self.venv else sys.executable

    @property
    def is_tests(self):
        return self.arguments[: len(TESTS)] == TESTS


@dataclass
class Outcome:
    """What became of a part: seconds in all runs of it, and its exit status."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    status: int | None = None


PARTS = (
    Part("tests", TESTS),
    Part(
        "tests with JAX as an oracle",
        (*TESTS, "tests/graph/test_oracle.py", "tests/jax/stablehlo"),
        {"JAX_PLATFORMS": "cpu"},
    ),
    Part(
        "tests of JAX's platform",
        (*TESTS, "tests/jax", "tests/jax_versions", "--ignore=tests/jax/stablehlo"),
    ),
    Part("types by a second checker", ("-m", "basedpyright", "--level", "error")),
    Part(
        "published rows",
        (
            *("bench/system/run.py", "--rows", "bench/system/rows.json"),
            *("--against", "bench/system/limits.json"),
        ),
        venv="clients",  # transformers has the modules of some networks
    ),
    Part("coverage of intervals", ("bench/system/coverage.py", "--check")),
    Part("mutants", ("tests/mutants/mutants.py",)),
    Part("random kernels", ("tests/fuzz/main.py", "--seed", "0", "--kernels", "2000")),
    Part("random scalars", ("tests/fuzz/scalars.py", "--seed", "0", "--programs", "5000")),
    Part(
        "random collectives",
        (*TESTS, "tests/isa/collectives/test_programs.py"),
        {"TRNSIM_PROGRAMS": "500"},
    ),
    Part(
        "pilots",
        (*TESTS, "tests/decide/pilot/test_renew.py"),
        {"TRNSIM_PILOT_CASES": "100"},
    ),
    Part(
        "files of users",
        (*TESTS, "tests/reader/test_files_of_users.py"),
        {"TRNSIM_FILES": "2000"},
    ),
    Part(
        "folded steps",
        (*TESTS, "tests/system/train/test_folding.py"),
        {"TRNSIM_FOLDINGS": "20", "TRNSIM_FOLDING_NODES": "64"},
    ),
    Part("claims", (*TESTS, "tests/system/claims"), {"TRNSIM_CLAIMS": "all"}),
    Part("states of killed processes", ("tests/instance/state/swarm.py", "60")),
)


def git(*arguments):
    """What git prints."""
    command = (shutil.which("git") or "git", *arguments)
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def source_digest():
    """A digest of the commit and of what differs from it."""
    changes = git("diff", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return hashlib.sha256(git("rev-parse", "HEAD") + changes).hexdigest()[:16]


class Record:
    """What is known of the parts, in a file that is replaced whole."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "outcomes.json"
        rows = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
        self.outcomes = {name: Outcome(**row) for name, row in rows.items()}

    def run(self, part):
        """Run a part that has not passed, and note what it took."""
        outcome = self.outcomes.setdefault(part.name, Outcome())
        if outcome.status == 0:
            return
        environment = os.environ | ONE_THREAD | part.environment
        name = part.name.replace(" ", "-")
        if part.is_tests:
            environment["TRNSIM_TESTS_PASSED"] = str(self.folder / f"{name}.passed")
            environment["TRNSIM_TEST_COSTS"] = str(self.folder / f"{name}.costs")
        began_s, before = time.monotonic(), os.times()
        command = [part.python, *part.arguments]
        try:
            outcome.status = subprocess.run(
                command, cwd=ROOT, env=environment, check=False
            ).returncode
        finally:
            after = os.times()
            outcome.wall_s += time.monotonic() - began_s
            outcome.cpu_s += after.children_user + after.children_system
            outcome.cpu_s -= before.children_user + before.children_system
            self._write()

    def _write(self):
        rows = {name: asdict(outcome) for name, outcome in self.outcomes.items()}
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        draft.replace(self._file)

    def table(self):
        """A line for each part."""
        yield f"{'minutes':>8} {'CPU min':>8}  part"
        for part in PARTS:
            outcome = self.outcomes.get(part.name, Outcome())
            said = {None: "not run", 0: "passed"}.get(outcome.status, f"exit {outcome.status}")
            yield f"{outcome.wall_s / 60:8.1f} {outcome.cpu_s / 60:8.1f}  {part.name}: {said}"
        total_s = sum(outcome.wall_s for outcome in self.outcomes.values())
        yield f"{total_s / 60:8.1f}           all"


def main():
    """Run what has not passed on this source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", help="names of parts, or of their beginnings")
    chosen = parser.parse_args().parts
    record = Record(KEPT / source_digest())
    for number, part in enumerate(PARTS, start=1):
        if not chosen or any(part.name.startswith(name) for name in chosen):
            print(f"[{number} of {len(PARTS)}] {part.name}", flush=True)
            record.run(part)
    print("\n".join(record.table()))
    return any(outcome.status for outcome in record.outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
