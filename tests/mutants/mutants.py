"""56 faults, each put into a copy of the source, and the test that notices it.

What was caught is kept in build/mutants: a run that was stopped goes on where it stopped, and what
survived is tried again. A test counts only if it passes without the fault.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import cache_from_source
from pathlib import Path

from draw import ROOT, draw, drawn, source_of
from equivalent import EQUIVALENT
from faults import place_of, words

KEPT = ROOT / "build" / "mutants" / "found.jsonl"
LIMIT_S = 900
# What covers a room, in the order in which it is asked after the test that mirrors the file.
COVERING = {
    "graph": ["tests/graph", "tests/torch/aten", "tests/graph/test_oracle.py"],
    "lower": ["tests/lower"],
    "compiler": ["tests/compiler", "tests/cli/test_compile.py"],
    "workload": ["tests/workload", "tests/estimate", "tests/system"],
    "timing": ["tests/timing", "tests/kernels", "tests/conformance"],
    "isa/dma": ["tests/isa/dma", "tests/kernels", "tests/conformance"],
    "hazards": ["tests/hazards", "tests/program", "tests/conformance"],
}
# Operations are compared on one chip; -k is asked of every test's name.
CHIP = "not trn1 and not trn3"
# These names say nothing of the class.
METHODS = {"build", "check", "cost", "execute", "reference", "types"}
# Words of -k's own language.
WORDS = {"and", "not", "or"}


class Copy:
    """The source in a temporary folder, where tests find it before the installed one."""

    def __init__(self, folder):
        self.folder = Path(folder)
        shutil.copytree(ROOT / "src", self.folder / "src")
        for name in ("examples", "docs"):
            (self.folder / name).symlink_to(ROOT / name)
        self._environment = os.environ | {"PYTHONPATH": str(self.folder / "src")}
        where = "import trnsim; print(trnsim.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", where], env=self._environment, stdout=subprocess.PIPE, check=True
        )
        if not Path(found.stdout.decode().strip()).is_relative_to(self.folder):
            sys.exit("tests would import another trnsim than the copy")

    def put(self, file, text):
        """Replace a file of the copy."""
        path = self.folder / "src" / "trnsim" / file
        path.write_text(text, encoding="utf-8")
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def failing(self, tests, names=""):
        """The first of the tests, of those names if any are given, that fails; or None."""
        chosen = f"{CHIP} and ({names})" if names else CHIP
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "-rfE"]
        command += ["-p", "no:cacheprovider", "--hypothesis-seed=0"]
        if not Path(tests[0]).is_absolute():  # our conftest.py knows the profile
            command += ["--hypothesis-profile=nightly"]
        command += ["-k", chosen, *tests]
        with tempfile.TemporaryFile("w+") as output:
            options = {"cwd": ROOT, "env": self._environment, "start_new_session": True}
            with subprocess.Popen(command, stdout=output, stderr=output, **options) as child:
                try:
                    status = child.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    return f"no end in {LIMIT_S} s of {tests[0]}"
            output.seek(0)
            return named(status, output.read(), tests)


def named(status, output, tests):
    """The test that pytest says has failed; None where all passed, or none was chosen."""
    if status in (0, 5):
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else f"{tests[0]}: the process ended with {status}"


def mirror(file):
    """The test that mirrors a file."""
    path = Path(file)
    return f"tests/{path.parent}/test_{path.name}"


def names_of(fault):
    """What tests of a function are likely called, for -k: of ``PadLow.types``, pad_low."""
    names = [name.strip("_") for name in fault.function.split(".")]
    snakes = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names]
    return " or ".join(name for name in snakes if name and name not in METHODS | WORDS)


def catcher(copy, room, fault):
    """The test that fails with the fault and passes without it; None if there is none."""
    source = source_of(fault.file)
    mutant = place_of(fault, source).applied(source)
    own = [mirror(fault.file)] if (ROOT / mirror(fault.file)).exists() else COVERING[room][-1:]
    own, covering = tuple(own), tuple(COVERING[room])
    for tests, names in dict.fromkeys(((own, names_of(fault)), (own, ""), (covering, ""))):
        copy.put(fault.file, mutant)
        test = copy.failing(tests, names)
        copy.put(fault.file, source)
        if test is not None:
            is_one = (ROOT / test.partition("::")[0]).exists()
            if copy.failing([test] if is_one else tests, "" if is_one else names):
                sys.exit(f"{test} without a fault")
            return test
    return None


def kept():
    """What earlier runs caught, by fault."""
    if not KEPT.exists():
        return {}
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
    return {json.dumps(row["fault"]): row["test"] for row in rows}


def row(room, fault, found):
    """A fault and what became of it."""
    line = place_of(fault, source_of(fault.file)).line
    change = f"{' '.join(fault.before.split())} -> {fault.after}"
    if fault.kind == "statement":
        change = f"without {fault.statement}"
    return f"{room:8} {fault.file}:{line} {fault.function}\n    {change}\n    {found}"


def argued_as(fault):
    """Its key in the table of equivalent faults."""
    return fault.file, fault.statement, fault.before, fault.after


def gone():
    """Drawn faults whose statement has changed, and arguments about faults that are not drawn."""
    faults = [fault for room in drawn().values() for fault in room]
    moved = [fault for fault in faults if place_of(fault, source_of(fault.file)) is None]
    argued = EQUIVALENT.keys() - {argued_as(fault) for fault in faults}
    return [f"{fault.file}: {fault.statement}" for fault in moved] + [
        f"argued, and not drawn: {key}" for key in sorted(argued)
    ]


def verdict(copy, room, fault, known):
    """Equivalent, caught by a test, or None for a fault that survived; what is caught is kept."""
    if argument := EQUIVALENT.get(argued_as(fault)):
        return f"equivalent: {argument}"
    test = known.get(json.dumps(words(fault)))
    if test is None:
        test = catcher(copy, room, fault)
        if test is None:
            return None
        with KEPT.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps({"fault": words(fault), "test": test}) + "\n")
    return f"caught by {test}"


def run(rooms):
    """Print the verdict on each fault of the rooms; how many survived."""
    survived = 0
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    known = kept()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        for room in rooms:
            for fault in drawn()[room]:
                start = time.perf_counter()
                found = verdict(copy, room, fault, known)
                survived += found is None
                taken = time.perf_counter() - start
                print(row(room, fault, f"{found or 'SURVIVED'} ({taken:.0f} s)"))
    return survived


def main():
    """Draw, or try the faults; 1 if one survived or is gone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="fill up the rooms, and end")
    parser.add_argument("--rooms", default=",".join(COVERING), help="by comma")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if given.draw:
        draw()
        return 0
    if lost := gone():
        sys.exit("\n".join(["these statements have changed; mutants.py --draw:", *lost]))
    survived = run(given.rooms.split(","))
    print(f"{survived} survived")
    return int(bool(survived))


if __name__ == "__main__":
    sys.exit(main())
