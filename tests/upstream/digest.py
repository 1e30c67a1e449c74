"""What the emulator gives for every development suite, to set beside another commit.

usage: digest.py FOLDER [PART ...] [--cases N] [--sweeps N]
       digest.py --compare A.json B.json

FOLDER holds the clones of the public suites. The trnsim that Python finds is the one under test:
PYTHONPATH=CHECKOUT/src runs another checkout's with these same tests. build/digest-COMMIT.json has
a row for every kernel launch, operator call, estimate and example: the sha256 of its values, its
time and its number of instructions, or its refusal; and for every question to a plan, its figures,
which may differ by 1 %. Of the suites of nki-library a sample runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import zip_longest
from pathlib import Path

import digest_figures
import test_trnsci
from digest_hook import FILE, FOLDERS
from digest_parts import PARTS
from ledger import read
from suites import HERE, ROOT, SUITES

import trnsim
from conformance import commit, git

SOURCE = Path(trnsim.__file__).parents[1]
CASES, SHOWN = 60, 10
KINDS = {
    "call": "call",
    "values": "values",
    "text": "values",
    "time": "time",
    "instructions": "time",
    "kernels": "time",
    "error": "refusal",
    "warnings": "refusal",
    "outcome": "refusal",
    "words": "words",
}
"""What a difference in a field of a row is a difference of; figures are compared by themselves."""


def environment(folder, file):
    """The variables of a part's process; no time is remembered from an earlier one."""
    return {
        **os.environ,
        FILE: str(file),
        FOLDERS: os.pathsep.join(map(str, (folder, ROOT, SOURCE.parent))),
        "TRNSIM_UPSTREAM": str(folder),
        "TRNSIM_CACHE": "off",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, HERE))),
    }


def run_part(name, folder, variables):
    """Run a part that is no test; how it ended, if it did not end well."""
    command = [sys.executable, str(HERE / "digest_parts.py"), name, str(folder)]
    return _ended(subprocess.run(command, env=variables, capture_output=True, check=False))


def run_suite(suite, folder, variables, number):
    """Run a suite, or `number` of its cases; how it ended, if it did not end well."""
    paths = os.pathsep.join([variables["PYTHONPATH"], *suite.paths])
    plugins = ["-p", "no:cacheprovider", "-p", "digest_hook"]
    if number is not None:
        plugins += ["-p", "ledger", f"--ledger={variables[FILE]}.ledger", f"--sample={number}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugins, *suite.arguments],
        cwd=folder / suite.cwd if suite.cwd else ROOT,
        env={**variables, **suite.environment, "PYTHONPATH": paths},
        capture_output=True,
        check=False,
    )
    return _ended(done, (0, 1))


def run_package(package, variables):
    """Run a package's own tests on its simulator (test_trnsci.py)."""
    os.environ.update(variables)
    return _ended(test_trnsci.command(package, "-p", "digest_hook"), (0, 1))


def _ended(done, good=(0,)):
    """The last line of a process that ended with another status than these, else nothing."""
    if done.returncode in good:
        return ""
    said = [done.stdout, done.stderr]
    text = "\n".join(t if isinstance(t, str) else t.decode(errors="replace") for t in said)
    return f"status {done.returncode}: {(text.strip().splitlines() or [''])[-1][:300]}"


def jobs(folder, given):
    """Part -> what runs it, given its environment."""
    found = {}
    for suite in SUITES:
        number = given.sweeps if "sweeps" in suite.name else given.cases
        if suite.name != "D6" and number:
            chosen = number if suite.name.startswith("D5") else None
            found[suite.name] = lambda v, s=suite, n=chosen: run_suite(s, folder, v, n)
    for package in test_trnsci.PACKAGES:
        found[f"D6-{package}"] = lambda v, p=package: run_package(p, v)
    for name in PARTS:
        found[name] = lambda v, n=name: run_part(n, folder, v)
    return found


def collect(folder, given):
    """Run each part and write the digest anew: what was run of what, and the rows."""
    todo = jobs(folder, given)
    clones = sorted({clone for suite in SUITES for clone in suite.clones})
    edited = git(SOURCE.parent, "status", "--porcelain", "--", "src")
    digest = {
        "commit": (commit(SOURCE.parent, ".") or "unknown") + ("+" if edited else ""),
        "clones": {clone: commit(folder, clone) for clone in clones},
        "cases": given.cases,
        "sweeps": given.sweeps,
        "parts": [],
        "failed": {},
        "rows": {},
    }
    for name in todo:
        if not name.startswith(tuple(given.parts) or ""):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            started, file = time.monotonic(), Path(scratch, f"{name}.jsonl")
            said = todo[name](environment(folder, file))
            found = keyed(read(file))
        digest["rows"] |= found
        digest["parts"].append(name)
        if said:
            digest["failed"][name] = said
        spent = time.monotonic() - started
        print(f"{name:<16}{len(found):>7} rows {spent:>6.0f} s  {said}", flush=True)
        path = write(digest)
    print(path)


def write(digest):
    """Put the digest into its file at once."""
    path = ROOT / "build" / f"digest-{digest['commit']}.json"
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(digest, indent=0) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def keyed(entries):
    """Key -> row; a key that came before is told apart by a number."""
    found, times = {}, Counter()
    for entry in entries:
        key = entry["key"]
        times[key] += 1
        found[key if times[key] == 1 else f"{key} again {times[key]}"] = entry["row"]
    return found


def differences(one, other):
    """Kind -> the rows of that kind that differ, by key, with how in words."""
    found = defaultdict(dict)
    for key in dict.fromkeys([*one, *other]):
        if key not in one or key not in other:
            place = "the first" if key in one else "the second"
            found["missing"][key] = f"only in {place}"
            continue
        mine, theirs = one[key], other[key]
        fields = dict.fromkeys([*mine, *theirs])
        unequal = [f for f in fields if f != "figures" and mine.get(f) != theirs.get(f)]
        if "error" in unequal:  # what was refused has no values and no time
            unequal = ["error"]
        for field in unequal:
            said = f"{field}: {unlike(mine.get(field), theirs.get(field))}"
            kind = found[KINDS[field]]
            kind[key] = f"{kind[key]}; {said}" if key in kind else said
    return dict(found)


def unlike(before, after):
    """Two values that differ: of texts the first lines that do, of named ones the first name."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        name = next(one for one in names if before.get(one) != after.get(one))
        return f"{name}: {unlike(before.get(name), after.get(name))}"
    if isinstance(before, str) and isinstance(after, str):
        lines = zip_longest(before.splitlines(), after.splitlines())
        before, after = next((pair for pair in lines if pair[0] != pair[1]), (before, after))
    return f"{before} -> {after}"


def part_of(key):
    """The part that a row is of."""
    return key.partition(" | ")[0]


def compare(one, other, most=SHOWN):
    """Print how two digests differ, by kind; whether they do."""
    for digest in (one, other):
        head = {name: value for name, value in digest.items() if name not in {"rows", "parts"}}
        print(f"{len(digest['rows'])} rows of {head}")
    for part in dict.fromkeys([*one["parts"], *other["parts"]]):
        if (part in one["parts"]) != (part in other["parts"]):
            print(f"left out, as one of them has it alone: {part}")
    shared = {*one["parts"]} & {*other["parts"]}
    mine, theirs = (
        {key: row for key, row in digest["rows"].items() if part_of(key) in shared}
        for digest in (one, other)
    )
    found = differences(mine, theirs)
    for kind, unequal in found.items():
        by_part = ", ".join(f"{n} of {part}" for part, n in Counter(map(part_of, unequal)).items())
        print(f"\n{kind}: {len(unequal)} rows differ: {by_part}")
        for key, said in [*unequal.items()][:most]:
            print(f"  {key}\n    {said}")
        if len(unequal) > most:
            print(f"  and {len(unequal) - most} more")
    figures, is_beyond = digest_figures.told(mine, theirs)
    if any("figures" in row for row in mine.values()):
        print("", *figures, sep="\n")
    print(f"\n{sum(row == theirs.get(key) for key, row in mine.items())} rows are equal")
    return bool(found or is_beyond or one["failed"] or other["failed"])


def main():
    """Make a digest, or compare two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the clones lie")
    parser.add_argument("parts", nargs="*", help="beginnings of parts' names; default all")
    parser.add_argument("--cases", type=int, default=CASES, help="of each fast suite of D5")
    parser.add_argument("--sweeps", type=int, default=0, help="of each suite of sweeps")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE", help="two digests")
    parser.add_argument("--most", type=int, default=SHOWN, help="differences shown of a kind")
    given = parser.parse_args()
    if given.compare:
        digests = [json.loads(path.read_text(encoding="utf-8")) for path in given.compare]
        sys.exit(compare(*digests, given.most))
    if given.folder is None:
        parser.error("name the folder with the clones, or --compare two digests")
    collect(given.folder.resolve(), given)


if __name__ == "__main__":
    main()
