"""docs/generated/conformance.md: counts by suite, what does not pass and why, warnings, skips."""

import re
from collections import Counter, defaultdict

from reasons import FAILURES, MARKED_BY_THEIR_AUTHORS, WARNINGS, reason_of
from suites import D5_FOLDER, SUITES

HEAD = """# Public suites

Written by `make upstream UPSTREAM=folder`, from unmodified clones. The groups are those used in
development; other public kernels are kept unread. A case passes if its own harness says so.

"""
COLUMNS = (
    *("group", "repository", "commit", "what", "emulator"),
    *("cases", "passed", "failed", "skipped by the suite", "warned"),
)


class Result:
    """What a suite's ledger holds."""

    def __init__(self, suite, entries):
        self.suite = suite
        self.head = entries[0] if entries else {}
        self.cases = {entry["case"]: entry for entry in entries if "case" in entry}
        counts = [entry for entry in entries if "population" in entry]
        self.population = max((entry["population"] for entry in counts), default=0)
        self.chosen = max((entry["chosen"] for entry in counts), default=0)
        self.is_finished = bool(entries) and bool(entries[-1].get("finished"))
        if not self.is_finished:
            for entry in entries:
                if "uncollected" in entry:
                    name = entry["uncollected"]
                    self.cases[name] = {"outcome": "failed", "warnings": [], **entry}

    def having(self, outcome):
        """The cases with an outcome, by short name."""
        return {
            short(name): case for name, case in self.cases.items() if case["outcome"] == outcome
        }

    @property
    def what(self):
        """What the suite is, and how much of it was run."""
        if not self.cases:
            return f"{self.suite.what} (not run)"
        if not self.is_finished:
            return f"{self.suite.what} (stopped early)"
        if "sweeps" not in self.suite.name:
            return self.suite.what
        is_whole = self.chosen == self.population
        part = "all" if is_whole else f"a sample of {self.chosen} of {self.population}"
        return f"{self.suite.what}: {part}"

    def row(self):
        """Its line of the table."""
        warned = sum(bool(case["warnings"]) for case in self.cases.values())
        return (
            *(self.suite.name, ", ".join(self.suite.clones), self.head.get("commit", "")),
            *(self.what, self.head.get("emulator", ""), len(self.cases)),
            *(len(self.having(outcome)) for outcome in ("passed", "failed", "skipped")),
            warned,
        )


def short(name):
    """A case without the folders of its suite, safe in a Markdown list."""
    return name.removeprefix(D5_FOLDER.partition("/")[2] + "/").removeprefix(f"{D5_FOLDER}/")


def table(columns, rows):
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines) + "\n"


def sorted_out(found, reasons):
    """Of (suite, case, message): the cases of each reason, and those that none explains."""
    explained, rest = defaultdict(list), []
    for suite, case, message in found:
        reason = reason_of(reasons, suite, case, message)
        if reason is None:
            rest.append(f"- {suite} `{case}`: {message}\n")
        else:
            explained[reason].append((suite, case))
    return explained, "".join(rest)


def failures(results):
    """What does not pass: first what nothing explains, then by reason."""
    found = [
        (result.suite.name, name, case["reason"])
        for result in results
        for name, case in result.having("failed").items()
    ]
    explained, rest = sorted_out(found, FAILURES)
    text = "## Failures that no document explains\n\n" + (rest or "None.\n")
    text += "\n## Failures that a document explains\n"
    for reason, cases in explained.items():
        text += f"\n{reason.why} Source: {reason.source}.\n\n"
        text += "".join(f"- {suite} `{name}`\n" for suite, name in cases)
    return text + ("" if explained else "\nNone.\n")


def warnings(results):
    """What warned: each kind with its document, and how many cases in each test function."""
    found = [
        (result.suite.name, short(name), f"{kind}: {text}")
        for result in results
        for name, case in result.cases.items()
        for kind, text in case["warnings"]
    ]
    explained, rest = sorted_out(found, WARNINGS)
    passed = [case for result in results for case in result.having("passed").values()]
    kinds = Counter(kind for case in passed for kind in {kind for kind, _ in case["warnings"]})
    counts = [f"{number} with {kind}" for kind, number in sorted(kinds.items())]
    text = "\n## Warnings\n\nThese are trnsim's own, for every case; those of the suites' other "
    text += f"modules are left out. Cases that passed: {len(passed)}; "
    text += f"of them {', '.join(counts) or 'none warned'}.\n\n"
    text += "Warnings that no document explains:\n\n" + (rest or "None.\n")
    for reason, cases in explained.items():
        text += f"\n`{reason.message}`: {reason.why} Source: {reason.source}.\n\n"
        functions = Counter((suite, name.partition("[")[0]) for suite, name in set(cases))
        text += "".join(
            f"- {suite} `{function}`: {number} cases\n"
            for (suite, function), number in sorted(functions.items())
        )
    return text


def marked(results):
    """What became of the cases that their authors mark as failing on AWS's simulator."""
    text = "\n## Marked by their authors as failing on AWS's simulator\n\n"
    for name in MARKED_BY_THEIR_AUTHORS:
        for result in results:
            text += "".join(
                f"- {result.suite.name} `{case}`: {entry['outcome']}\n"
                for case, entry in result.cases.items()
                if name in case
            )
    return text


def skipped(results):
    """How many cases a suite skips, by its own reason."""
    text = "\n## Skipped by the suites themselves\n\n"
    for result in results:
        # An empty parameter set names its parameters, each set with others.
        reasons = Counter(
            case["reason"].partition(" for (")[0] for case in result.having("skipped").values()
        )
        text += "".join(
            f"- {result.suite.name}: {number}: {reason}\n" for reason, number in reasons.items()
        )
    return text


def page(results, not_yet):
    """The whole page, from the suites' results and the groups that are not run yet."""
    text = HEAD + table(COLUMNS, [result.row() for result in results])
    text += failures(results) + warnings(results) + marked(results) + skipped(results)
    text += "\n## Not yet\n\nKernels of the older generation, `neuronxcc.nki`, are not emulated "
    text += "(docs/limits.md).\n\n"
    return text + table(("group", "repository", "commit", "what"), not_yet).rstrip("\n") + "\n"


def with_rows(text, results):
    """The page `text` with other rows of some suites; all else stays as it is.

    Raises:
        SystemExit: for a suite of which the page has more to say than its row.
    """
    for result in results:
        cases = result.cases.values()
        if any(case["outcome"] != "passed" or case["warnings"] for case in cases):
            raise SystemExit(
                f"{result.suite.name} does not only pass: the page is made from all suites' ledgers"
            )
    head, first, rest = text.partition(table(COLUMNS, ()).rstrip("\n") + "\n")
    old, end, rest = rest.partition("\n\n")
    rows = {line[2:].partition(" | ")[0]: line for line in old.splitlines()}
    rows |= {result.suite.name: table(result.row(), ()).splitlines()[0] for result in results}
    known = [rows[suite.name] for suite in SUITES if suite.name in rows]
    passed = sum(int(line.split(" | ")[COLUMNS.index("passed")]) for line in known)
    rest = re.sub("Cases that passed: [0-9]+;", f"Cases that passed: {passed};", rest)
    return head + first + "\n".join(known) + end + rest
