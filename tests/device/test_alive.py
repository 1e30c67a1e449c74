import subprocess
import sys

from trnsim.device import alive

HOLDING = """
import os, sys
from trnsim.device import alive
path = alive.held_lock()
assert path == alive.held_lock() and not alive.has_ended(path)
if os.fork() == 0:  # a child has none of its parent's
    assert alive.held_lock() != path
    os._exit(0)
os.wait()
print(path, flush=True)
sys.stdin.read()
{end}
"""


def holding(end):
    return subprocess.Popen(
        [sys.executable, "-c", HOLDING.format(end=end)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_process_has_ended_when_it_was_killed_or_has_gone_and_not_before():
    for end in ("os._exit(0)", "os.kill(os.getpid(), 9)", "pass"):
        process = holding(end)
        path = process.stdout.readline().strip()
        assert not alive.has_ended(path)
        process.communicate("")
        assert alive.has_ended(path)
        assert alive.has_ended(path)  # as often as one asks


def test_nothing_is_said_of_a_process_without_a_lock():
    assert not alive.has_ended("")
    assert not alive.has_ended(alive.held_lock())


def test_nothing_is_said_of_a_process_of_another_machine(monkeypatch, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    elsewhere = f"{here}/trnsim-alive-7-00000000-abc"
    assert not alive.has_ended(elsewhere)  # its file is not here, and was not expected
    assert alive.has_ended(f"{here}/trnsim-alive-7-{alive._folder_digest(here)}-abc")
    monkeypatch.setattr(alive, "_BOOT_FILE", tmp_path / "none")
    monkeypatch.setattr("platform.node", lambda: "another")
    mark = alive._folder_digest(here)
    monkeypatch.undo()
    assert not alive.has_ended(f"{here}/trnsim-alive-7-{mark}-abc")
    assert not alive.has_ended(f"{tmp_path}/none/trnsim-alive-7-{mark}-abc")
