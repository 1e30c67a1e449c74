import os
import subprocess
import sys
import time

import pytest
from instance_shells import SMALL, in_namespace, needs_namespace, needs_root

from trnsim.instance.model import instance_model
from trnsim.instance.shell import keeper, linux_calls, sysfs
from trnsim.instance.shell.cover import Cover
from trnsim.instance.state import folder, hardware
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.record import ProcessRecord
from trnsim.instance.state.writer import Writer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes of Linux")


def test_the_end_of_a_process_is_noticed_at_once():
    with subprocess.Popen(["sleep", "60"]) as process:
        ended = keeper._End(process.pid)
        assert not ended.within(0.01)
        process.kill()
        before_s = time.monotonic()
        assert ended.within(30)
        assert time.monotonic() - before_s < 5


def test_on_an_older_linux_it_is_looked_for(monkeypatch):
    def missing(_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(keeper.os, "pidfd_open", missing)
    with subprocess.Popen(["sleep", "60"]) as process:
        ended = keeper._End(process.pid)
        assert not ended.within(0.01)
        process.kill()
        process.wait()
        assert ended.within(0.01)


@needs_namespace
@needs_root
def test_processes_of_the_namespace_end_and_others_do_not():
    with subprocess.Popen(["sleep", "60"]) as other:

        def ends():
            linux_calls.mount("trnsim", "/opt", "tmpfs")
            left = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; sleep 60 & wait"])
            time.sleep(0.2)
            keeper.end_others()
            return 0 if left.wait(5) == -9 and list(keeper._other_members()) == [] else 3

        assert in_namespace(ends) == 0
        assert other.poll() is None
        other.kill()


def test_outside_of_an_instance_nobody_is_ended(monkeypatch):
    ended = []
    monkeypatch.setattr(keeper.os, "kill", lambda *call: ended.append(call))
    keeper.end_others()
    assert ended == []
    assert os.getpid() not in list(keeper._other_members())


@pytest.fixture
def state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def kept(tmp_path):
    """A keeper of the files of a small instance, in a folder, and that folder."""
    model = instance_model(SMALL)
    root = tmp_path / "sysfs"
    root.mkdir()
    Cover.write(str(root), sysfs.device_files(model, model.devices[0]))
    found = keeper.Keeper(model, str(root))
    yield found, root
    os.close(found.files.descriptor)


def record(**fields):
    pid, started = own_identity()
    return ProcessRecord(
        pid=pid,
        start_time=started,
        command="python",
        tool="kernel",
        tag="1",
        instance=SMALL,
        lnc=1,
        cores=(1,),
        updated_at=0.0,
        **fields,
    )


def test_counters_follow_the_state(kept, state_folder):
    found, root = kept
    found.refresh()
    assert not state_folder.exists()  # nothing has run: the keeper makes no folder of the user's
    writer = Writer(lambda: record(executions={"completed": 4}, memory_bytes={1: {"tensors": 64}}))
    writer.write()
    found.refresh()
    core = root / "neuron0" / "neuron_core1" / "stats"
    assert (core / "status" / "success" / "total").read_text() == "4\n"
    assert (core / "other_info" / "inference_count").read_text() == "4\n"
    assert (core / "memory_usage" / "device_mem" / "tensors" / "peak").read_text() == "64\n"
    writer.stop()
    found.refresh()
    assert (core / "status" / "success" / "total").read_text() == "4\n"
    assert (core / "memory_usage" / "device_mem" / "tensors" / "total").read_text() == "0\n"
    assert (core / "memory_usage" / "device_mem" / "tensors" / "peak").read_text() == "64\n"


@pytest.mark.usefixtures("state_folder")
def test_errors_of_a_memory_follow_the_faults(kept):
    found, root = kept
    for _ in range(2):
        hardware.inject(folder.state_folder(), hardware.StoredFault("hbm-ecc", 0, None, 0.0, 0.0))
    found.refresh()
    shown = {path.name: path.read_text() for path in (root / "neuron0/stats/hardware").iterdir()}
    assert shown == dict.fromkeys(sysfs.ECC_FILES, "0\n") | {"mem_ecc_uncorrected": "2\n"}


def test_a_counter_that_is_written_to_is_zero(kept, state_folder):
    found, root = kept
    writer = Writer(lambda: record(executions={"completed": 4}))
    writer.write()
    found.refresh()
    total = root / "neuron0" / "neuron_core1" / "stats" / "status" / "success" / "total"
    found.clear()
    assert total.read_text() == "4\n"
    total.write_text("1\n")
    found.clear()
    assert total.read_text() == "0\n"
    assert total.with_name("present").read_text() == "4\n"
    found.refresh()
    assert total.read_text() == "0\n"
    writer.stop()
    assert state_folder.is_dir()


def test_a_write_to_reset_is_counted_and_anything_else_ignored(kept):
    found, root = kept
    (root / "neuron0" / "reset").write_text("1\n")
    (root / "neuron0" / "uevent").write_text("add\n")
    found.clear()
    assert (root / "neuron0" / "reset").read_text() == "0\n"
    for core in (0, 1):
        other = root / "neuron0" / f"neuron_core{core}" / "stats" / "other_info"
        assert (other / "reset_req_count").read_text() == "1\n"


def test_a_file_of_any_name_in_the_folder_of_a_counter_is_ignored(kept):
    found, root = kept
    folder = root / "neuron0" / "neuron_core1" / "stats" / "status" / "success"
    (folder / "reset").write_text("1\n")
    (folder / os.fsdecode(b"\xff")).write_text("1\n")
    found.clear()
    assert (folder / "reset").read_text() == "1\n"
    other_info = root / "neuron0" / "neuron_core1" / "stats" / "other_info"
    assert (other_info / "reset_req_count").read_text() == "0\n"


def test_a_state_that_cannot_be_read_changes_nothing(kept, state_folder):
    found, root = kept
    state_folder.mkdir(mode=0o755)
    state_folder.chmod(0o755)  # open to others: refused
    found.refresh()
    total = root / "neuron0" / "neuron_core1" / "stats" / "status" / "success" / "total"
    assert total.read_text() == "0\n"


def test_it_keeps_until_the_program_ends(state_folder, monkeypatch):
    looks, ended = [], []
    monkeypatch.setattr(keeper.Keeper, "refresh", lambda _: looks.append(time.monotonic()))
    monkeypatch.setattr(keeper, "end_others", lambda: ended.append(True))
    with subprocess.Popen(["sleep", "0.2"]) as process:
        keeper.main(process.pid, SMALL, 1)
    assert len(looks) == 1
    assert ended == [True]
    assert not state_folder.exists()
