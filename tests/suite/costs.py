"""CPU and wall seconds of tests, in the folder that TRNSIM_TEST_COSTS names, and a page of them.

A pytest plugin writes a line of JSON for each phase of a test, each shared fixture and each
collection.
CPU seconds are those of the process that runs the tests and of the children that it waited for.

    python tests/suite/costs.py FOLDER PAGE
"""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

FOLDER = "TRNSIM_TEST_COSTS"
SLOWEST = 50
LIMIT_CPU_S = 0.5


def cpu_s():
    """CPU seconds of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Recorder:
    """A pytest plugin that writes what collection, the phases of tests and fixtures cost."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self._began_s = time.perf_counter()
        self._lines = (folder / f"{os.getpid()}.jsonl").open("w", encoding="utf-8")

    def _measured(self, **names):
        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        result = yield
        self._write(wall_s=time.perf_counter() - began_s, cpu_s=cpu_s() - began_cpu_s, **names)
        return result

    def _write(self, **row):
        self._lines.write(json.dumps(row) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self):
        return (yield from self._measured(kind="collection"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        return (yield from self._measured(kind="setup", test=item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        return (yield from self._measured(kind="call", test=item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self._measured(kind="teardown", test=item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":  # a part of its test's setup
            return (yield)
        names = {"fixture": fixturedef.argname, "scope": fixturedef.scope}
        return (yield from self._measured(kind="fixture", test=request.node.nodeid, **names))

    def pytest_unconfigure(self, config):
        if not config.pluginmanager.hasplugin("dsession"):  # whose children are the others
            self._write(kind="process", cpu_s=cpu_s(), wall_s=time.perf_counter() - self._began_s)
        self._lines.close()


def pytest_configure(config):
    """Records where a folder is named."""
    if folder := os.environ.get(FOLDER):
        config.pluginmanager.register(Recorder(Path(folder)), "costs of tests")


def rows_of(folder):
    """The rows that the processes of a run wrote."""
    for path in sorted(Path(folder).rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def page(folder):
    """Seconds of a run by its parts, and of its slowest tests and shared fixtures, as Markdown."""
    parts, kinds, calls, fixtures = [], defaultdict(list), {}, {}
    for row in rows_of(folder):
        if row["kind"] == "part":
            parts.append((row["part"], f"{row['cpu_s']:.1f}", f"{row['wall_s']:.1f}"))
            continue
        kinds[row["kind"]].append(row["cpu_s"])
        if row["kind"] == "call":
            calls[row["test"]] = row
        if row["kind"] == "fixture" and row["scope"] != "function":
            fixtures[f"{row['fixture']} for {row['test']}"] = row
    slow = sum(row["cpu_s"] > LIMIT_CPU_S for row in calls.values())
    totals = ((kind, len(costs), f"{sum(costs):.1f}") for kind, costs in kinds.items())
    lines = [
        "# Seconds of tests",
        "",
        f"{len(calls)} tests, {slow} of them above {LIMIT_CPU_S} s of CPU. CPU seconds are those",
        "of a process of tests and of its children. A process holds its collection and its phases.",
        "Parts run at once; one takes what it starts as well, and checks are parts too.",
        "",
        *(_table(("part", "CPU s", "wall s"), parts) if parts else ()),
        *_table(("kind", "number", "CPU s"), totals),
        *_slowest("test", calls),
        *_slowest("fixture", fixtures),
    ]
    return "\n".join(lines)


def _slowest(kind, rows):
    """The rows of the most CPU seconds, as a table."""
    dearest = sorted(rows.items(), key=lambda item: -item[1]["cpu_s"])[:SLOWEST]
    cells = ((f"{row['cpu_s']:.2f}", f"{row['wall_s']:.2f}", name) for name, row in dearest)
    return _table(("CPU s", "wall s", kind), cells)


def _table(head, rows):
    """Lines of a Markdown table, and an empty one."""
    lines = [head, tuple("---" for _ in head), *rows]
    return [*("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines), ""]


if __name__ == "__main__":
    costs, destination = sys.argv[1:]
    Path(destination).write_text(page(costs), encoding="utf-8")
    print(f"what tests cost: {destination}")
