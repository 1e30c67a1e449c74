import os
import sys
from dataclasses import replace

import pytest

from trnsim.instance.state import containers, reader
from trnsim.instance.state.record import ProcessRecord, to_json

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

RECORD = ProcessRecord(7, "99", "python", "torch", "7", "trn1.32xlarge", 1, (6, 7), 0.0)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Process 4321 of this machine is 7 of a container, and began at 99."""
    folder = tmp_path / "containers" / "neuron-3"
    folder.mkdir(parents=True)
    monkeypatch.setattr(containers, "_numbers", lambda: {(7, "99"): 4321})
    return tmp_path, folder


def store(folder, record=RECORD, name=None):
    path = folder / (name or f"{record.pid}-{record.start_time}.json")
    path.write_text(to_json(record))
    return path


def test_a_program_in_a_container_has_this_machines_number(machine):
    state, folder = machine
    store(folder)
    assert containers.container_records(state) == [replace(RECORD, pid=4321)]
    assert [record.pid for record in reader.read_all(state, 0)] == [4321]


def test_a_program_that_has_ended_is_left_out_and_its_file_stays(machine):
    state, folder = machine
    path = store(folder, replace(RECORD, pid=8))
    assert containers.container_records(state) == []
    assert path.exists()


def test_a_record_of_another_name_is_left_out(machine):
    state, folder = machine
    store(folder, name="8-99.json")
    store(folder, name="other.json")
    assert containers.container_records(state) == []


def test_links_pipes_and_broken_files_are_skipped(machine, tmp_path):
    state, folder = machine
    outside = tmp_path / "outside.json"
    outside.write_text(to_json(RECORD))
    (folder / "7-99.json").symlink_to(outside)
    assert containers.container_records(state) == []
    (folder / "7-99.json").unlink()
    os.mkfifo(folder / "7-99.json")
    assert containers.container_records(state) == []
    (folder / "7-99.json").unlink()
    (folder / "7-99.json").write_text("{")
    assert containers.container_records(state) == []


def test_a_state_without_containers_has_none(tmp_path):
    assert containers.container_records(tmp_path) == []


def test_numbers_of_namespaces_are_read_from_proc():
    text = "Name:\tsleep\nNSpid:\t4321\t12\t7\nNSpgid:\t4321\t12\t7\n"
    assert containers._INNER_PID.search(text)[1] == "7"
    assert containers._INNER_PID.search("NSpid:\t4321\nNSpgid:\t1\n") is None
