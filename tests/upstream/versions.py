"""Run the public suites under every version of NKI and write docs/generated/versions.md.

usage: python tests/upstream/versions.py FOLDER [--suites D1 D6 ...] [--versions 0.4 found ...]
                                         [--sample N] [--page]

FOLDER holds the clones, as for conformance.py. Outcomes are kept in build/versions, a folder a
version, and a stopped run goes on. `found` is no version: each file follows the one that is found
from its forms. `--sample N` takes N cases of each suite; `--page` runs nothing and writes the page
of what is kept.
"""

import argparse
import os
import re
from collections import Counter, defaultdict
from pathlib import Path

from ledger import FOUND, PIN, read
from suites import PINNED, ROOT, SUITES
from suites_page import short, table

import conformance
from trnsim.behaviours import LATEST, VERSIONS
from trnsim.behaviours.language import OLD_NAMESPACE
from trnsim.behaviours.table import TABLE
from trnsim.nki.dialect import inferred_version_of_file

KEPT = ROOT / "build" / "versions"
RUNS = (*VERSIONS, FOUND)
PAGE = ROOT / "docs" / "generated" / "versions.md"
REFUSAL = re.compile(r"under NKI 0[.][0-9]|exists (in|from) NKI 0[.]")
HEAD = """# Public suites by version of NKI

Written by `python tests/upstream/versions.py FOLDER` from unmodified clones. Each suite was run
under the rules of each version of NKI, whatever version it was written for. A case *runs* if its
own harness says that it passes; it is *refused* if trnsim's error names the version; otherwise it
has *other values* or another error, and the rows of the table of behaviours that the case asked
for and that the nearest version in which it runs has otherwise stand beside it. A case that fails
under every version fails for a reason of its own ([Public suites](conformance.md) has it) and is
counted as such. Where a version has `-`, the suite was not run. A sample is drawn from a seed, and
is the same for every version. Under *found* no version was chosen: each file follows the newest one
under which every form that it uses exists. *Emulator* is the last commit, at the time of the run,
of the source behind kernels.

"""


def ends(entries):
    """(how a case ended, its reason, its rows) by case."""
    cases = {entry["case"]: entry for entry in entries if "case" in entry}
    return {
        name: (_end(case), case["reason"], case.get("rows", [])) for name, case in cases.items()
    }


def _end(case):
    if case["outcome"] != "failed":
        return case["outcome"]
    return "refused" if REFUSAL.search(case["reason"]) else "other"


def cell(found):
    """A suite's outcomes under a version in words."""
    counts = Counter(end for end, _, _ in found.values())
    words = {"passed": "run", "refused": "refused", "other": "other", "own": "fail under all"}
    return ", ".join(f"{counts[end]} {word}" for end, word in words.items() if counts[end]) or "-"


def reasons(suite, version, by_version):
    """Lines on the cases that a version refuses, or gives other values; equal ones are counted."""
    refusals, others = Counter(), defaultdict(list)
    for name, (end, reason, _) in by_version[version].items():
        if end == "refused":
            refusals[row_of(reason)] += 1
        elif end == "other":
            others[reason[:160], rows_of(name, version, by_version)].append(short(name))
    head = f"- {suite} under NKI {version}"
    lines = [f"{head}: {n} refused by `{row}`\n" for row, n in refusals.items()]
    for (reason, rows), names in others.items():
        why = ", ".join(f"`{row}`" for row in rows) or "none was asked"
        lines.append(f"{head}, `{names[0]}`{_and_more(names)}: {reason}; rows: {why}\n")
    return lines


def rows_of(name, version, by_version):
    """The rows that a case asks for and that the nearest version in which it runs has otherwise."""
    places = {each: place for place, each in enumerate(VERSIONS)}
    running = [each for each, found in by_version.items() if found.get(name, ("",))[0] == "passed"]
    if not running:
        return ()
    nearest = min(running, key=lambda each: abs(places[each] - places[version]))
    asked = {row for each in (version, nearest) for row in by_version[each][name][2]}
    sides = VERSIONS[version], VERSIONS[nearest]
    return tuple(sorted(row for row in asked if len({s.follows(TABLE[row]) for s in sides}) > 1))


def lost_cases(suite, as_found, by_version):
    """Lines on the cases that fail as found and run under a version, by reason and versions."""
    cases = defaultdict(list)
    for name, (end, reason, _) in as_found.items():
        running = [
            version
            for version, ends_of_cases in by_version.items()
            if ends_of_cases.get(name, ("",))[0] == "passed"
        ]
        if running and end in ("refused", "other"):
            why = f"refused by `{row_of(reason)}`" if end == "refused" else reason[:160]
            cases[", ".join(running), why].append(short(name))
    return [
        f"- {suite}, `{names[0]}`{_and_more(names)}: runs under {running}; as found: {why}\n"
        for (running, why), names in cases.items()
    ]


def _and_more(names):
    """How many names a line leaves out, in words."""
    return f" and {len(names) - 1} more" if names[1:] else ""


def row_of(reason):
    """The row that a refusal speaks of, by its form or by the words of either side."""
    for row in TABLE.values():
        is_said = any(f"where {words};" in reason for words in (row.rule, row.otherwise))
        if is_said or (row.form and row.form in reason):
            return row.name
    return reason[:100]


def files(folder):
    """(file, version, reason) of each file of the clones that is not of the latest version."""
    for clone in sorted({clone for suite in (*SUITES, *PINNED) for clone in suite.clones}):
        for path in sorted((folder / clone).rglob("*.py")):
            choice = inferred_version_of_file(str(path))
            if choice is not None and choice.version is not LATEST:
                yield path.relative_to(folder).as_posix(), choice


def page(folder):
    """The page of what is kept."""
    rows, lines, lost = [], [], []
    for suite in (*SUITES, *PINNED):
        by_version = {name: ends(read(KEPT / name / f"{suite.name}.jsonl")) for name in RUNS}
        if not any(by_version.values()):
            continue
        mark_own_failures(by_version)
        outcomes = (cell(cases) for cases in by_version.values())
        rows.append((suite.name, what(suite), commits(suite), *outcomes))
        as_found = by_version.pop(FOUND)
        lost += lost_cases(suite.name, as_found, by_version)
        for name in by_version:
            lines += reasons(suite.name, name, by_version)
    text = HEAD + table(("suite", "what", "emulator", *RUNS), rows)
    text += "## What is refused, and what has other values\n\n" + ("".join(lines) or "Nothing.\n")
    text += "\n## Cases that run under a version and not under the one that is found\n\n"
    text += "".join(lost) or "None.\n"
    text += (
        "\n## Files that are not of the latest version\n\nFound from the forms that they use.\n\n"
    )
    old = Counter()
    for name, choice in files(folder):
        if OLD_NAMESPACE.form in choice.reason:
            old[name.rpartition("/")[0]] += 1
            continue
        reason = choice.reason.replace(f"{folder}{os.sep}", "")
        text += f"- `{name}`: {choice.version}: {reason}\n"
    text += "\nFiles of the generation before, which import `neuronxcc.nki`, by folder: "
    return (
        text + ("; ".join(f"{count} in `{name}`" for name, count in old.items()) or "none") + ".\n"
    )


def commits(suite):
    """The commits of the emulator under which the kept runs of a suite were made."""
    heads = [read(KEPT / name / f"{suite.name}.jsonl")[:1] for name in RUNS]
    return ", ".join(dict.fromkeys(head["emulator"] for (head,) in filter(None, heads)))


def what(suite):
    """The suite in words, with the size of the sample that was run."""
    for name in RUNS:
        for entry in read(KEPT / name / f"{suite.name}.jsonl"):
            if entry.get("chosen", 0) < entry.get("population", 0):
                return f"{suite.what}: a sample of {entry['chosen']} of {entry['population']}"
    return suite.what


def mark_own_failures(by_version):
    """Mark the cases that pass under no version and are refused by none: "own"."""
    names = {name for found in by_version.values() for name in found}
    for name in names:
        found = [cases[name] for cases in by_version.values() if name in cases]
        if (
            all(end == "other" for end, *_ in found)
            and len({reason for _, reason, _ in found}) == 1
        ):
            for cases in by_version.values():
                if name in cases:
                    cases[name] = ("own", *cases[name][1:])


def run(suite, folder, sample, names):
    """Run a suite under each of these versions, or as found."""
    for name in names:
        ledger = conformance.opened(suite, folder, KEPT / name)
        options = [f"--nki={name}", *([] if sample is None else [f"--sample={sample}"])]
        os.environ.pop(PIN, None)
        if name != FOUND:
            os.environ[PIN] = name
        conformance.run(suite, folder, None, options, ledger)


def main():
    """Run the suites whose names begin with one of those given, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the clones lie")
    parser.add_argument("--suites", nargs="*", default=["D", "V"], help="beginnings of names")
    parser.add_argument("--versions", nargs="*", default=RUNS, choices=RUNS)
    parser.add_argument("--sample", type=int, help="cases of each suite, not all")
    parser.add_argument("--page", action="store_true", help="write the page of what is kept")
    given = parser.parse_args()
    folder = given.folder.resolve()
    if not given.page:
        for suite in (*SUITES, *PINNED):
            is_there = all((folder / clone).is_dir() for clone in suite.clones)
            if is_there and suite.name.startswith(tuple(given.suites)):
                run(suite, folder, given.sample, given.versions)
    os.environ.pop(PIN, None)
    PAGE.write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
