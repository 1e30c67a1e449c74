import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trnsim.instance.state import folder, writer
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.reader import read_all
from trnsim.instance.state.record import ProcessRecord, from_json


def record():
    pid, started = own_identity()
    return ProcessRecord(pid, started, "c", "kernel", "t", "trn2.3xlarge", 2, (0,), time.time())


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "state"
    monkeypatch.setenv("TRNSIM_STATE", str(path))
    return path


@pytest.fixture
def kept(place):  # noqa: ARG001  names the folder
    made = writer.Writer(record, period_s=0.01)
    yield made
    made.stop()


def test_a_file_is_written_at_once_and_goes_at_the_end(kept, place):
    kept.start()
    pid, started = own_identity()
    assert kept.path == place / f"{pid}-{started}.json"
    assert from_json(kept.path.read_bytes()).pid == pid
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    kept.stop()
    assert list(place.glob("*.json")) == []
    kept.stop()


def test_nothing_more_is_written_until_a_reader_listens(kept, place):
    kept.start()
    first = kept.path.stat().st_mtime_ns
    time.sleep(0.1)
    assert kept.path.stat().st_mtime_ns == first
    folder.listen(place, 10)
    until = time.monotonic() + 5
    while kept.path.stat().st_mtime_ns == first and time.monotonic() < until:
        time.sleep(0.01)
    assert kept.path.stat().st_mtime_ns > first


def test_who_counts_is_told_when_readers_come_and_go(place):
    told = []
    made = writer.Writer(record, told.append)
    made.look()
    folder.listen(place, 10)
    made.look()
    made.look()
    os.utime(place / "listening", (1, 1))
    made.look()
    assert told == [True, False]


def test_a_disk_that_is_full_is_said_once_and_tried_again(kept, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_bytes", full)
            kept.write()
            kept.write()
        assert "No space left on device" in kept.problem
        kept.write()
        assert not kept.problem
        assert kept.path.exists()
    said = capsys.readouterr().err
    assert said.count("the state of this process is not kept: cannot write") == 1


@pytest.mark.parametrize("output", [None, "closed"])
def test_without_a_standard_error_nothing_is_said(monkeypatch, output):
    closed = Path(os.devnull).open("w")  # noqa: SIM115
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed if output else None)
    writer.say_not_kept("no room")


def test_the_end_of_a_program_removes_its_file(place):
    program = (
        "import time\n"
        "from trnsim.instance.state.writer import Writer\n"
        "from trnsim.instance.state.record import ProcessRecord\n"
        "from trnsim.instance.state.identity import own_identity\n"
        "record = ProcessRecord(*own_identity(), 'c', 'torch', 't', 'trn2.3xlarge', 2, (0,), 1.0)\n"
        "Writer(lambda: record).start()\n"
        "from pathlib import Path\n"
        f"print(len(list(Path({str(place)!r}).glob('*.json'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
    assert list(place.glob("*.json")) == []


def test_what_a_parent_wrote_is_not_removed_by_its_fork(kept):
    kept.start()
    kept._pid += 1  # as in a fork, whose number is another
    kept.stop()
    assert kept.path.exists()
    kept._pid -= 1


@pytest.mark.slow
def test_a_reader_sees_whole_records_while_they_are_replaced(kept, place):
    kept.start()
    folder.listen(place, 10)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert [one.pid for one in read_all(place)] == [os.getpid()]
