"""A run of tests that goes on where it stopped: tests that passed before are left out.

A pytest plugin. TRNSIM_TESTS_PASSED names the file that holds the names of the tests that passed;
names are added as tests pass. Who sets it gives each version of the source a file of its own.
"""

import os
from pathlib import Path

import pytest

FILE = "TRNSIM_TESTS_PASSED"


class GoingOn:
    """A pytest plugin that leaves out the tests that a file names, and adds those that pass."""

    def __init__(self, file):
        self._file = file
        self._passed = set(file.read_text(encoding="utf-8").splitlines() if file.exists() else ())
        self._failed = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        """Leaves out what passed before."""
        passed = [item for item in items if item.nodeid in self._passed]
        items[:] = [item for item in items if item.nodeid not in self._passed]
        config.hook.pytest_deselected(items=passed)

    def pytest_runtest_logreport(self, report):
        """Notes a test none of whose phases failed."""
        if report.failed:
            self._failed.add(report.nodeid)
        is_worker = "PYTEST_XDIST_WORKER" in os.environ  # its reports reach the process above it
        if report.when == "teardown" and report.nodeid not in self._failed and not is_worker:
            with self._file.open("a", encoding="utf-8") as passed:
                passed.write(report.nodeid + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        """Nothing left to run is a success."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._passed:
            session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config):
    """Goes on where a file is named."""
    if name := os.environ.get(FILE):
        config.pluginmanager.register(GoingOn(Path(name)), "tests that passed before")
