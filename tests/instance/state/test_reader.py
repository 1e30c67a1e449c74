import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.instance.state import folder
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.reader import instance_of, read_all
from trnsim.instance.state.record import ProcessRecord, to_json

SWARM = Path(__file__).with_name("swarm.py")


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "state"
    monkeypatch.setenv("TRNSIM_STATE", str(path))
    return folder.state_folder()


def record(**fields):
    pid, started = own_identity()
    made = ProcessRecord(pid, started, "c", "torch", "t", "trn2.48xlarge", 2, (0,), time.time())
    return replace(made, **fields)


def put(place, one, name=""):
    path = place / (name or f"{one.pid}-{one.start_time}.json")
    path.write_text(to_json(one))
    return path


def test_no_process_is_no_record(place):
    assert read_all(place) == []


def test_the_records_of_processes_that_live_are_read_and_they_are_asked_for_more(place):
    put(place, record())
    assert not folder.is_listening(place)
    assert read_all(place) == read_all(place)
    assert read_all(place)[0].pid == os.getpid()
    assert folder.is_listening(place)


def test_who_only_looks_once_may_ask_for_nothing(place):
    assert read_all(place, listen_s=0) == []
    assert not folder.is_listening(place)


def test_a_dead_process_is_left_out_and_its_file_removed(place):
    path = put(place, record(pid=2**22 + 1))
    assert read_all(place) == []
    assert not path.exists()


def test_a_number_that_another_process_has_now_is_a_dead_process(place):
    path = put(place, record(start_time="1"))
    assert read_all(place) == []
    assert not path.exists()


def test_a_file_cut_in_half_is_skipped_and_stays(place):
    path = put(place, record())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert read_all(place) == []
    assert path.exists()


@pytest.mark.parametrize("text", [b"", b"\xff", b"null", b"[" * 100_000, b'{"pid": 1}', b"\0" * 99])
def test_what_is_no_record_is_skipped(place, text):
    put(place, record()).write_bytes(text)
    assert read_all(place) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and links of POSIX")
def test_what_is_no_file_is_skipped(place):
    """A folder, a pipe and a link to itself, by the names of processes that live and do not."""
    alive = "-".join(map(str, own_identity()))
    for name in (alive, "1-1"):
        path = place / f"{name}.json"
        for make in (Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)):
            make(path)
            assert read_all(place) == []
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)


def test_a_record_under_another_name_is_skipped(place):
    one = record()
    put(place, replace(one, pid=one.pid + 1), f"{one.pid}-{one.start_time}.json")
    assert read_all(place) == []


@pytest.mark.parametrize("name", ["listening.json", "x-1.json", "1.json", "1-2.txt", "-1-2.json"])
def test_files_of_others_are_not_touched(place, name):
    (place / name).write_text("{")
    assert read_all(place) == []
    assert (place / name).exists()


def test_what_a_killed_writer_left_is_removed_once_it_is_old(place):
    left, fresh = place / ".trnsim-0a.tmp", place / ".trnsim-0b.tmp"
    for path in (left, fresh):
        path.write_text("{")
    os.utime(left, (time.time() - 100,) * 2)
    read_all(place)
    assert (left.exists(), fresh.exists()) == (False, True)


def test_the_instance_is_the_largest_in_use_unless_it_is_named(monkeypatch):
    for name in ("TRNSIM_INSTANCE", "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert instance_of([]).name == "trn2.3xlarge"
    assert instance_of([record(), record(instance="trn2.3xlarge")]).name == "trn2.48xlarge"
    assert instance_of([record(instance="of another version")]).name == "trn2.3xlarge"
    assert instance_of([record(lnc=1)]).lnc == 1
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.3xlarge")
    assert instance_of([record()]).name == "trn2.3xlarge"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_sixty_four_processes_that_are_killed_at_random():
    done = subprocess.run(
        [sys.executable, SWARM, "3"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "none shown dead" in done.stdout
