import os
import sys

import pytest

from trnsim.instance.state import observers
from trnsim.instance.state.identity import own_identity


@pytest.fixture(autouse=True)
def at_exit(monkeypatch):
    """What would be done at the end of the process."""
    done = []
    monkeypatch.setattr(
        observers.atexit, "register", lambda call, *given: done.append(lambda: call(*given))
    )
    return done


def test_a_tool_is_listed_until_it_ends(tmp_path, monkeypatch, at_exit):
    monkeypatch.setattr(sys, "argv", ["trnsim", "neuron-monitor", "-c", "my config"])
    assert observers.observers(tmp_path) == []
    observers.announce(tmp_path)
    assert observers.observers(tmp_path) == [(os.getpid(), "neuron-monitor -c 'my config'")]
    at_exit[-1]()
    assert observers.observers(tmp_path) == []


def test_one_that_was_killed_is_removed_and_what_is_no_tool_is_skipped(tmp_path):
    observers.announce(tmp_path)
    folder = tmp_path / observers.FOLDER
    pid, started = own_identity()
    (folder / f"{pid}-{started}9.txt").write_text("of another process with this number")
    (folder / "readme.txt").write_text("no tool")
    (folder / f"1-{started}.txt").write_bytes(b"\xff")
    assert [one.pid for one in observers.observers(tmp_path)] == [pid]
    assert sorted(path.name for path in folder.iterdir()) == [f"{pid}-{started}.txt", "readme.txt"]


def test_a_tool_removes_what_others_that_were_killed_have_left(tmp_path, at_exit):
    folder = tmp_path / observers.FOLDER
    folder.mkdir()
    (folder / f"{2**22 + 1}-1.txt").write_text("neuron-monitor")
    observers.announce(tmp_path)
    assert len(list(folder.iterdir())) == 1
    (folder / next(folder.iterdir())).unlink()
    folder.rmdir()
    folder.write_text("a file in its place")
    at_exit[-1]()  # and nothing is said
