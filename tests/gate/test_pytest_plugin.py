"""The plugin in the sample project, as pytest and pytest-xdist run it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trnsim

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).parent / "project"
FILE = "trn-baselines.toml"
PLACE = "        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)\n"
COPY = "        nisa.tensor_copy(dst=weights[:, :960], src=tile[:, :960])\n"
"""About 5 us of 60: a copy that nobody reads."""
LOADS = """        left = load(a[row : row + ROWS])
        right = load(b[row : row + ROWS])
"""
UPGRADE = """
from dataclasses import replace

from trnsim import arch
from trnsim.facts import Rate
from trnsim.gate import kernel_time

kernel_time.VERSION = "0.2.0"
for name in ("trn1", "trn2"):
    old = arch.TARGETS[name]
    rate = old.core.dma_bytes_per_s
    core = replace(old.core, dma_bytes_per_s=Rate(0.9 * rate, rate.provenance))
    arch.TARGETS[name] = replace(old, core=core)
"""


class Project:
    """The sample project in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copy(PROJECT / "kernels.py", folder)
        shutil.copy(PROJECT / "kernel_tests.py", folder / "test_kernels.py")

    def run(self, *options):
        """Status and output of pytest."""
        variables = {
            **os.environ,
            "PYTHONPATH": str(Path(trnsim.__file__).parents[1]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "trnsim.gate.pytest_plugin",
        }
        variables.pop("PYTEST_ADDOPTS", None)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def edit(self, before, after, file="kernels.py"):
        text = (self.folder / file).read_text()
        assert text.count(before) == 1
        (self.folder / file).write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The baselines of the project."""
    project = Project(tmp_path_factory.mktemp("stored"))
    assert project.run("--trn-update")[0] == 0
    return project.folder / FILE


@pytest.fixture
def project(tmp_path, stored):
    shutil.copy(stored, tmp_path)
    return Project(tmp_path)


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "2")])
def test_an_unchanged_project_passes(project, options):
    status, printed = project.run(*options)
    assert status == 0, printed
    assert "4 passed" in printed
    assert "trnsim" not in printed.replace("trn-", "")


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "2")])
def test_a_change_that_costs_5_us_of_60_fails_with_its_line(project, options):
    lines = (project.folder / "kernels.py").read_text().splitlines(keepends=True)
    place = lines.index(PLACE) + 1
    project.edit(PLACE, COPY + PLACE)
    status, printed = project.run(*options)
    assert status == 1, printed
    assert "1 failed, 3 passed" in printed
    assert "softmax on trn2: slower: 4.96 us slower than its baseline: 59.9 us -> 64.9" in printed
    assert f"  kernels.py:{place}: +4.96 us  {COPY.strip()}" in printed
    assert f"at {project.folder / 'kernels.py'}:{place}" in printed


def test_two_independent_loads_of_equal_cost_in_another_order_pass(project):
    project.edit(LOADS, "".join(reversed(LOADS.splitlines(keepends=True))))
    status, printed = project.run()
    assert status == 0, printed


def test_a_new_kernel_asks_for_a_baseline_and_gets_one(project):
    test = "\n\ndef test_wide(trn):\n    trn(add, random(128, 64), random(128, 64))\n"
    with (project.folder / "test_kernels.py").open("a") as file:
        file.write(test)
    status, printed = project.run()
    assert status == 1
    assert "has no baseline of test_kernels.py::test_wide add on trn2" in printed
    before = (project.folder / FILE).read_text()
    status, printed = project.run("--trn-update", "-k", "wide")
    assert status == 0
    assert "wrote 1 times to trn-baselines.toml: commit it" in printed
    after = (project.folder / FILE).read_text()
    assert set(before.splitlines()) < set(after.splitlines())  # nothing else was touched
    assert project.run()[0] == 0


def test_an_upgrade_that_moves_every_figure_says_that_it_was_the_upgrade(project):
    (project.folder / "conftest.py").write_text(UPGRADE)
    status, printed = project.run()
    assert status == 0, printed
    assert "another trnsim, not the kernels: from 0.1.0+" in printed
    assert "to 0.2.0+" in printed
    assert "constants: dma_bytes_per_s 3.68e+11 -> 3.312e+11" in printed
    # A change of a kernel beside it is still the kernel's.
    project.edit(PLACE, COPY + PLACE)
    status, printed = project.run()
    assert status == 1
    assert "trnsim changed too, and this part is with its earlier constants" in printed
    assert COPY.strip() in printed


def test_a_merge_conflict_is_named_before_any_test_runs(project):
    text = (project.folder / FILE).read_text()
    (project.folder / FILE).write_text(text.replace("version = 1", "<<<<<<< HEAD\nversion = 1"))
    for options in ((), ("-p", "xdist.plugin", "-n", "2")):
        status, printed = project.run(*options)
        assert status == 4
        assert f"{FILE}:3: a merge conflict is left in the baselines" in printed


def test_a_file_that_cannot_be_written_is_named_before_any_test_runs(project):
    (project.folder / "file").write_text("")
    status, printed = project.run("--trn-update", "-o", f"trn_baselines=file/{FILE}")
    assert status == 4
    assert "file" in printed
    assert "Traceback" not in printed
    assert " passed" not in printed


def test_baselines_of_deleted_kernels_are_named_and_dropped(project):
    project.edit("def test_add(trn):", "def no_test_add(trn):", "test_kernels.py")
    status, printed = project.run()
    assert status == 0
    gone = "test_kernels.py::test_add add on trn2"
    assert f"baselines of no kernel that ran (pytest --trn-update drops them): {gone}" in printed
    status, printed = project.run("test_kernels.py::test_matmul")  # it does not know of others
    assert "baselines of no kernel" not in printed
    status, printed = project.run("-p", "xdist.plugin", "-n", "2", "--trn-update")
    assert status == 0
    assert gone not in (project.folder / FILE).read_text()


def test_a_project_without_the_fixture_imports_no_numpy(tmp_path):
    text = "import sys\n\n\ndef test_it():\n    assert 'numpy' not in sys.modules\n"
    (tmp_path / "test_none.py").write_text(text)
    project = Project(tmp_path)
    status, printed = project.run("test_none.py")
    assert status == 0, printed


def test_the_options_are_told(project):
    _, printed = project.run("--help")
    assert "--trn-update" in printed
    assert "trn_baselines" in printed
    _, printed = project.run("--markers")
    assert "@pytest.mark.trn(max_us, on, baseline)" in printed
