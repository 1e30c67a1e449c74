"""A pytest plugin that keeps each case's outcome as the case ends; a later run takes up from there.

usage: pytest -p ledger --ledger=FILE [--sample=N] [--nki=VERSION] ...

A line of FILE is one JSON object: a case with its outcome, reason, seconds and warnings; how many
cases there were to choose from; or that the run reached its end. `--sample N` chooses N of the
cases that the suite does not skip, the same ones each time, spread over files and functions.
With `--nki` kernels follow that version, and a case has the rows of the table of behaviours that it
asked for and that the latest version answers otherwise; with `--nki=found` each kernel follows the
version that is found from its file, whatever version the modules of tests were imported under.
"""

import json
import os
import random
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest

SEED = 0
FOUND = "found"
"""The version of a run in which none is chosen."""
PIN = "TRNSIM_NKI"


def pytest_addoption(parser):
    parser.addoption("--ledger", type=Path, help="keep outcomes here, and run only what is missing")
    parser.addoption("--sample", type=int, help="run this many of the cases that are not skipped")
    parser.addoption("--nki", help="the version of NKI that kernels follow")


def pytest_configure(config):
    path = config.getoption("--ledger")
    if path is not None:
        ledger = Ledger(path, config.getoption("--sample"), config.getoption("--nki"))
        config.pluginmanager.register(ledger)


def read(path):
    """The objects of a ledger; a line that a killed run left unfinished is not one."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def sample(names, number):
    """`number` of `names`, the first of each test function, then its second, by its share."""
    groups = defaultdict(list)
    for name in names:
        groups[name.partition("[")[0]].append(name)
    ranked = []
    for function, group in groups.items():
        group.sort()
        random.Random(f"{SEED} {function}").shuffle(group)  # noqa: S311  a sample, no secret
        ranked += [((place + 0.5) / len(group), name) for place, name in enumerate(group)]
    return {name for _, name in sorted(ranked)[:number]}


class Ledger:
    """The plugin, where a ledger was asked for."""

    def __init__(self, path, number, nki):
        self.path = path
        self.number = number
        self.nki = nki
        self.outcomes = {}
        self.warnings = defaultdict(list)
        whole = [json.dumps(entry) + "\n" for entry in read(path)]
        path.write_text("".join(whole), encoding="utf-8")

    def write(self, **entry):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        able = [item.nodeid for item in items if not item.get_closest_marker("skip")]
        chosen = set(able) if self.number is None else sample(able, self.number)
        self.write(population=len(able), chosen=len(chosen))
        known = {entry["case"] for entry in read(self.path) if "case" in entry}
        unwanted = (set(able) - chosen) | known
        items[:] = [item for item in items if item.nodeid not in unwanted]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        """Around all else, so that pytest has reported the case's warnings when it is written."""
        start = time.monotonic()
        with following(self.nki) as rows:
            done = yield
        entry = {} if self.nki is None else {"rows": rows}
        outcome, reason = self.outcomes.pop(item.nodeid, ("passed", ""))
        self.write(
            case=item.nodeid,
            outcome=outcome,
            reason=reason,
            seconds=round(time.monotonic() - start, 1),
            warnings=self.warnings.pop(item.nodeid, []),
            **entry,
        )
        return done

    def pytest_runtest_logreport(self, report):
        expected = getattr(report, "wasxfail", None)
        if report.failed or (report.skipped and expected is not None):
            self.outcomes[report.nodeid] = "failed", expected or first_line(report.longrepr)
        elif report.skipped:
            *_, reason = report.longrepr
            self.outcomes[report.nodeid] = "skipped", reason.removeprefix("Skipped: ")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(uncollected=report.nodeid, reason=first_line(report.longrepr))

    def pytest_warning_recorded(self, warning_message, nodeid):
        kind = warning_message.category
        ours = str(Path("src", "trnsim", ""))
        if kind.__module__.startswith("trnsim") or ours in warning_message.filename:
            said = [kind.__name__, first_line(warning_message.message)]
            if said not in self.warnings[nodeid]:
                self.warnings[nodeid].append(said)

    def pytest_sessionfinish(self, session, exitstatus):
        ended = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if any("case" in entry for entry in read(self.path)):
            ended.add(pytest.ExitCode.NO_TESTS_COLLECTED)  # the ledger has them all
        if exitstatus in ended and not (session.shouldstop or session.shouldfail):
            self.write(finished=True)


@contextmanager
def following(version):
    """A list that has, after this block, the rows in which `version` differed from the latest."""
    rows = []
    if version is None:
        yield rows
        return
    if version == FOUND:
        chosen = os.environ.pop(PIN, None)
        try:
            yield rows
        finally:
            if chosen is not None:
                os.environ[PIN] = chosen
        return
    from trnsim.behaviours import LATEST, version_named  # noqa: PLC0415  most runs need none
    from trnsim.behaviours.chosen import pinned  # noqa: PLC0415
    from trnsim.nki.across import watched_version  # noqa: PLC0415

    current = watched_version(version_named(version, "--nki"))
    with pinned(current, "--nki"):
        yield rows
    rows += [row.name for row, holds in current.answers.items() if LATEST.follows(row) != holds]


def first_line(said):
    """What a failure or a warning says first, with files as the clones name them."""
    crash = getattr(said, "reprcrash", None)
    lines = str(crash.message if crash is not None else said).splitlines()
    folder = os.environ.get("TRNSIM_UPSTREAM", "") + os.sep
    return next((line for line in lines if line.strip()), "").replace(folder, "")
