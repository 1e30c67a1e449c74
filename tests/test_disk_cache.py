import json
import os
import subprocess
import sys
from math import inf

import pytest
from spoiled_cache import OTHER_FIELDS, spoil

from trnsim import disk_cache
from trnsim.graph import Graph
from trnsim.lower import costs, fusion_groups, lowering

KEY = (("add", (1, 2)), "trn2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def _read(key):
    return disk_cache.read(key, lambda stored: {**stored})


@pytest.mark.parametrize("changes", OTHER_FIELDS)
def test_a_kernels_time_with_other_fields_is_measured_again(folder, changes):
    graph = Graph()
    graph.outputs = [graph.elementwise("tanh", graph.input((3, 5), "float32"))]
    (group,) = fusion_groups(graph)
    measured = lowering._cost(group, "trn2", False, inf)
    spoil(folder, changes)
    lowering._group_costs.clear()
    assert lowering._cost(group, "trn2", False, inf) == measured


def test_what_was_written_is_read_and_nothing_else(folder):
    assert _read(KEY) is None
    disk_cache.write(KEY, {"time": 0.1})
    assert _read(KEY) == {"time": 0.1}
    assert _read((KEY, 1)) is None
    (file,) = (folder / disk_cache.version()).iterdir()
    assert file.suffix == ".json"


def test_other_sources_have_other_files(folder, monkeypatch):
    disk_cache.write(KEY, {"time": 0.1})
    monkeypatch.setattr(disk_cache, "version", lambda: "another")
    assert _read(KEY) is None
    assert folder.is_dir()


def test_a_file_that_was_cut_off_is_not_there(folder):
    disk_cache.write(KEY, {"time": 0.1})
    (file,) = (folder / disk_cache.version()).iterdir()
    file.write_text(file.read_text()[:-2])
    assert _read(KEY) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"time": "0.1"}',
        "null",
        "\x00",
        "digest\n{}",
        f"{disk_cache._digest('[]')}\n[]",
        "0" * 32 + "\n{}",
    ],
)
def test_a_file_that_holds_something_else_is_not_there_and_is_written_anew(folder, content):
    disk_cache.write(KEY, {"time": 0.1})
    (file,) = (folder / disk_cache.version()).iterdir()
    file.write_text(content)
    assert _read(KEY) is None
    disk_cache.write(KEY, {"time": 0.1})
    assert _read(KEY) == {"time": 0.1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder):
    disk_cache.write(KEY, {"time": 0.1})
    (file,) = (folder / disk_cache.version()).iterdir()
    file.unlink()
    os.mkfifo(file)
    assert _read(KEY) is None


def test_what_was_changed_within_a_file_is_not_read(folder):
    disk_cache.write(KEY, {"time": 0.1})
    (file,) = (folder / disk_cache.version()).iterdir()
    file.write_text(file.read_text().replace("0.1", "0.2"))
    assert _read(KEY) is None


def test_off_keeps_nothing_and_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    disk_cache.write(KEY, {})
    assert _read(KEY) is None
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv(disk_cache.VARIABLE, str(blocked))
    disk_cache.write(KEY, {})
    assert _read(KEY) is None


def _aged(folder, version, numbers, monkeypatch):
    """Files of a version, each used a second after the one before."""
    monkeypatch.setattr(disk_cache, "version", lambda: version)
    files = []
    for number in numbers:
        before = set(folder.glob("*/*.json"))
        disk_cache.write((KEY, number), {"text": "x" * 1000})
        (file,) = set(folder.glob("*/*.json")) - before
        os.utime(file, (number, number))
        files.append(file)
    return files


def test_a_user_without_a_home_keeps_nothing(monkeypatch):
    def refuse():
        raise RuntimeError("Could not determine home directory.")

    for name in (disk_cache.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(disk_cache.Path, "home", refuse)
    disk_cache.write(KEY, {"time": 0.1})
    assert _read(KEY) is None


def test_files_unused_for_longest_are_removed_whatever_their_version(folder, monkeypatch):
    old = _aged(folder, "0" * 32, (1, 2), monkeypatch)
    new = _aged(folder, "1" * 32, (3, 4), monkeypatch)
    others = [folder / "notes.json", folder / ("0" * 32) / "notes.json", folder / "a" / "b.json"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("x" * 10_000)
        os.utime(other, (0, 0))
    file_bytes = new[0].stat().st_size
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 4 * file_bytes)
    disk_cache._remove_unused.cache_clear()
    disk_cache.write((KEY, 5), {})
    assert all(file.is_file() for file in (*old, *new))  # four files are as many as may be
    assert _read((KEY, 3)) is not None  # used now, so the file of 4 is older
    disk_cache._remove_unused.cache_clear()
    disk_cache.write((KEY, 6), {})
    assert [file.is_file() for file in (*old, *new)] == [False, False, True, False]
    assert all(other.is_file() for other in others)


@pytest.mark.usefixtures("folder")
def test_a_folder_is_looked_through_once_by_a_process(monkeypatch):
    disk_cache.write((KEY, 1), {})
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 0)
    disk_cache.write((KEY, 2), {})
    assert _read((KEY, 1)) == {}


@pytest.mark.slow
def test_a_kernel_that_another_process_timed_is_not_run_again(folder, monkeypatch):
    code = (
        "from trnsim.graph import Graph\nfrom trnsim.lower import costs\n"
        "g = Graph()\n"
        "g.outputs = [g.elementwise('tanh', g.input((64, 65), 'float32'))]\n"
        "print(costs(g, 'trn3')[0].device_time_s)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (file,) = (folder / disk_cache.version()).iterdir()
    assert json.loads(file.read_text().partition("\n")[2])["device_time_s"] == float(done.stdout)
    monkeypatch.setattr(lowering, "launch", None)
    g = Graph()
    g.outputs = [g.elementwise("tanh", g.input((64, 65), "float32"))]
    assert costs(g, "trn3")[0].device_time_s == float(done.stdout)
