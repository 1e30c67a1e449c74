"""Check and price published job specs of clones, and write docs/generated/specs.md.

usage: python tests/upstream/specs.py FOLDER [--tables aws kubernetes ...]

FOLDER holds the clones, as for conformance.py. The tables in tests/upstream/specs name each spec:
repository, commit, file, format, number of jobs, and the findings that are true, as "rule:line".
`block` counts the code blocks of a page, from 0, where the spec stands in one; `on`, `model` and
`steps` state what it does not. Files are read from the commit and are not copied. Ends with 1 if a
spec is not read as its table says.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from suites_page import table

from trnsim.errors import EmulatorError
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.formats import read_specs
from trnsim.jobs.price import TimeBasis, price_job
from trnsim.jobs.rules import findings

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path(__file__).with_name("specs")
PAGE = ROOT / "docs" / "generated" / "specs.md"
DIRECTIVE = r"^( *)\.\. code(?:-block)?::[^\n]*\n(?:\1 +:[^\n]*\n)*\n((?:\1 +[^\n]*\n|[ \t]*\n)+)"
"""A code block of reStructuredText with its options."""
SENTENCE = 140
"""Characters of a reason on the page."""
HEAD = """# Published job specs

Written by `python tests/upstream/specs.py FOLDER` from unmodified files of public repositories, at
the commits in `tests/upstream/specs`. Each is read, checked and priced as `trnsim job` does it. A
*bound* is a time limit; *per hour* is a server or a cluster, which has no end.

"""


@dataclass
class Outcome:
    """How a published spec was read.

    Attributes:
        row: its row in a table.
        faults: how that differs from the row.
        prices: how each job was priced, or why not.
    """

    row: dict
    faults: list[str] = field(default_factory=list)
    prices: list[str] = field(default_factory=list)


def rows(tables):
    """The rows of tables by name; of all tables for no name."""
    for path in sorted(TABLES.glob("*.json")):
        if not tables or path.stem in tables:
            yield from json.loads(path.read_text(encoding="utf-8"))


def content(folder, row):
    """The text of a spec at its commit, or of a code block of it."""
    clone = folder / row["repository"].rpartition("/")[2]
    shown = subprocess.run(
        ["git", "-C", str(clone), "show", f"{row['commit']}:{row['file']}"],  # noqa: S607
        check=True,
        capture_output=True,
    ).stdout.decode("utf-8")
    return shown if "block" not in row else blocks(shown)[row["block"]]


def blocks(page):
    """The code blocks of a page of reStructuredText or Markdown, without their indent."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    directive = (
        r"^( *)\.\. code(?:-block)?::[^\n]*\n(?:\1 +:[^\n]*\n)*\n((?:\1 +[^\n]*\n|[ \t]*\n)+)"
    )
    literal = [found[1] for found in re.findall(directive, page, re.MULTILINE)]
    return [*fenced, *map(textwrap.dedent, literal)]


def outcome(folder, row):
    """A spec beside its row."""
    result = Outcome(row)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / Path(row["file"]).name.replace(".rst", ".yaml")
        path.write_text(content(folder, row), encoding="utf-8")
        try:
            specs = read_specs(path)
        except EmulatorError as error:
            result.faults.append(f"not read: {error.reason}".replace(f"{temporary}/", ""))
            return result
    found = sorted(f"{each.rule}:{each.place.line}" for spec in specs for each in findings(spec))
    read = {"format": specs[0].format, "jobs": len(specs), "findings": found}
    for name, value in read.items():
        expected = sorted(row[name]) if name == "findings" else row[name]
        if value != expected:
            result.faults.append(f"{name}: {value}, not {expected}")
    stated = {name: row[name] for name in ("model", "steps") if name in row}
    assumed = SpecAssumption(instance=row.get("on", ""), **stated)
    result.prices = [price_words(price_job(spec.job, assumed)) for spec in specs]
    return result


def price_words(price):
    """How a job was priced, or why not."""
    if price.basis is TimeBasis.PLAN:
        return "plan"
    if price.basis is TimeBasis.LIMIT and price.usd is not None:
        return "bound"
    if price.usd_per_hour is not None and not price.reasons:
        return "per hour"
    known = "per hour; " if price.usd_per_hour is not None else ""
    return f"{known}{'; '.join(price.reasons) or 'no price is known'}"[:SENTENCE]


def page(outcomes):
    """The page of all outcomes."""
    lines = [
        (
            *(each.row["repository"], f"`{each.row['file']}`", each.row["format"]),
            *(str(each.row["jobs"]), ", ".join(each.row["findings"]) or "-"),
            "; ".join(f"{n} x {words}" if n > 1 else words
                      for words, n in Counter(each.prices).items()),
        )
        for each in outcomes
    ]  # fmt: skip
    by_format = Counter(each.row["format"] for each in outcomes)
    counts = ", ".join(f"{count} {name}" for name, count in sorted(by_format.items()))
    notes = "".join(
        f"- `{each.row['file']}`: {', '.join(each.row['findings'])}: {each.row['note']}\n"
        for each in outcomes
        if each.row["findings"]
    )
    heads = ("repository", "file", "format", "jobs", "findings", "price")
    return (
        f"{HEAD}{len(outcomes)} specs: {counts}.\n\n{table(heads, lines)}"
        f"## Findings, and why they are true\n\n{notes or 'None.'}"
    ).rstrip("\n") + "\n"


def main():
    """Run the tables; write the page if all were run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="*", default=())
    options = parser.parse_args()
    outcomes = [outcome(options.folder, row) for row in rows(options.tables)]
    for each in outcomes:
        for fault in each.faults:
            print(f"{each.row['file']}: {fault}")
    failed = sum(bool(each.faults) for each in outcomes)
    print(f"{len(outcomes)} specs, {failed} not as their table says")
    if not options.tables and not failed:
        PAGE.write_text(page(outcomes), encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
