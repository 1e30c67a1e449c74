import json
import os
import shlex
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim import nki, runs
from trnsim.device import call_log, device_core, watch
from trnsim.device.call_time import CallTime
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.faults import HardwareFault
from trnsim.device.rank_placement import placed_time
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state import folder, hardware, identity
from trnsim.instance.state.reader import read_all
from trnsim.instance.state.record import MEMORY, ProcessRecord, to_json
from trnsim.lower import Cost
from trnsim.nki import collectives, isa
from trnsim.nki import language as nl
from trnsim.profile.measures.busy import busy_s
from trnsim.tools.monitor import groups


@dataclass(frozen=True)
class Call:
    """A call of two kernels."""

    name: str = "aten::call"
    operation: str = "call"

    def time(self, target):
        assert target == "trn2"
        parts = {"tensor": 1.0, "dma": 2.0}, {"tensor": 0.5}
        return CallTime(tuple(Cost("k", 4.0, 1.0, 1, 100.0, 0, busy) for busy in parts))


@nki.jit
def doubled(a):
    """``a + a``."""
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(result, nl.add(tile, tile))
    return result


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A state of this test's own, in which the process is not watched yet."""
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "LOCAL_RANK", "TRNSIM_INSTANCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    device_core.visible_cores.cache_clear()
    watch._watching.clear()
    yield folder.state_folder()
    watch.end()
    device_core.visible_cores.cache_clear()


def test_calls_add_up_to_busy_and_elapsed_times():
    work = watch.WorkRecording()
    for _ in range(3):
        work.note(Call(), 1, lambda: pytest.fail("no place in the program is asked for"))
    work.note(Call(), 0, lambda: None)
    work.compute_times()
    assert work.executions == {"completed": 4}
    assert dict(work.elapsed_s) == {1: 30.0, 0: 10.0}
    assert dict(work.busy_s) == {1: {"pe": 4.5, "dma": 6.0}, 0: {"pe": 1.5, "dma": 2.0}}
    assert dict(work.flop) == {1: 600.0, 0: 200.0}
    assert work.total_s == {10.0: 4}
    assert work.device_s == {8.0: 4}
    work.compute_times()
    assert work.executions == {"completed": 4}


def test_an_exchange_that_is_awaited_takes_elapsed_time():
    work = watch.WorkRecording()
    call = CollectiveCall("allreduce", 1 << 20, (0, 1))
    work.note_collective(call, (), is_async=True)
    work.compute_times()
    assert not work.elapsed_s
    work.note_collective(call, (), is_async=False)
    work.note_collective(CollectiveCall("of another kind", 8, (0, 1)), (), is_async=False)
    work.compute_times()
    assert work.elapsed_s == {0: placed_time("all_reduce", 1 << 20, [(0, 1)], "trn2").time_s}


def test_a_run_of_a_kernel_is_seen_from_outside(place):
    array = np.ones((128, 512), np.float32)
    trnsim.run(doubled, array)
    (quiet,) = read_all(place)  # the reader now listens
    assert (quiet.pid, quiet.tool, quiet.instance) == (os.getpid(), "kernel", "trn2.3xlarge")
    assert (quiet.cores, quiet.executions["completed"]) == ((0, 1, 2, 3), 0)
    found = watch.current_watch()
    found.writer.look()
    run = trnsim.run(doubled, array)
    found.writer.look()
    (record,) = read_all(place)
    assert record.executions["completed"] == 1
    assert record.elapsed_s == {0: run.total_time_s}
    assert record.busy_s[0]["dma"] == busy_s(run.timeline)["dma"]
    assert 0 < record.utilization(0, "vector") < record.utilization(0) <= 1
    assert record.total_latency_s["p50"] == run.total_time_s
    assert record.device_latency_s["p100"] == run.timeline.device_time_s
    assert sum(count for _, _, count in record.latencies) == record.executions["completed"]
    assert record.latencies[0][0] == pytest.approx(run.total_time_s, rel=0.005)


def test_latencies_are_of_the_executions_since_the_last_record(place):
    folder.listen(place, 30)
    few, many = (np.ones((128, columns), np.float32) for columns in (8, 4096))
    trnsim.run(doubled, many)  # the reader is heard after it
    found = watch.current_watch()
    found.writer.look()
    found.writer.stop()  # whose thread makes records too
    times_s = []
    for arrays in ([many, few], [few]):
        runs_s = [trnsim.run(doubled, one).total_time_s for one in arrays]
        latency_s = found.record().total_latency_s
        times_s.append((latency_s["p0"], latency_s["p100"]) == (min(runs_s), max(runs_s)))
        assert found.record().total_latency_s == latency_s  # until there are others
    assert times_s == [True, True]


@nki.jit
def reduced(x, groups):
    """The sum of `x` over the ranks."""
    source = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    whole = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    isa.dma_copy(dst=source, src=x)
    collectives.all_reduce([source], [whole], groups, nl.add)
    isa.dma_copy(dst=result, src=whole)
    return result


ONES = np.ones((8, 8), np.float32)


def test_a_run_on_ranks_has_a_core_each(place):
    folder.listen(place, 30)
    group = collectives.ReplicaGroup([list(range(4))])
    world = trnsim.run(reduced, ONES, group, ranks=4, instance="trn2.48xlarge")
    found = watch.current_watch()
    found.writer.look()
    (first,) = read_all(place)
    # Of the first run the cores are known at once, the rest once the thread has heard a reader.
    assert (first.cores, first.instance, first.lnc) == (tuple(range(4)), "trn2.48xlarge", 1)
    trnsim.run(reduced, ONES, group, ranks=4, instance="trn2.48xlarge")
    trnsim.run(doubled, np.ones((128, 512), np.float32))
    found.writer.look()
    (record,) = read_all(place)
    assert record.cores == first.cores  # a run on fewer takes none away
    assert record.executions["completed"] - first.executions["completed"] == 5
    grown = {at: record.elapsed_s[at] - first.elapsed_s.get(at, 0.0) for at in range(1, 4)}
    assert grown == pytest.approx({at: world.runs[at].total_time_s for at in range(1, 4)})


def test_a_fault_of_a_ranks_device_is_the_runs(place):
    group = collectives.ReplicaGroup([list(range(16))])
    hardware.inject(place, hardware.StoredFault("dma", 1, 0, time.time(), None))
    trnsim.run(doubled, np.ones((128, 512), np.float32))  # on device 0
    with pytest.raises(HardwareFault, match=r"1203\) on device 1, core 0 \(neuron:8\)"):
        trnsim.run(reduced, ONES, group, ranks=16, instance="trn2.48xlarge")


def test_a_program_that_runs_follows_a_reset(place):
    hardware.inject(place, hardware.StoredFault("dma", 0, None, time.time(), None))
    with pytest.raises(HardwareFault, match=r"1203\) on device 0"):
        trnsim.run(doubled, np.ones((128, 512), np.float32))
    hardware.reset(place)
    watch.current_watch().writer.look()
    trnsim.run(doubled, np.ones((128, 512), np.float32))


@nki.jit
def multiplied(a_transposed, b):
    """``a @ b``, and a transpose, whose operations are no model's."""
    product = nl.ndarray((96, 256), nl.float32, buffer=nl.psum)
    isa.nc_matmul(dst=product, stationary=nl.load(a_transposed), moving=nl.load(b))
    turned = nl.ndarray((96, 128), nl.bfloat16, buffer=nl.psum)
    isa.nc_transpose(dst=turned, data=nl.load(a_transposed), engine=isa.tensor_engine)
    result = nl.ndarray((96, 256), nl.float32, buffer=nl.shared_hbm)
    nl.store(result, nl.copy(product))
    return result


def test_a_run_of_a_kernel_has_the_operations_of_its_products(place):
    folder.listen(place, 30)
    a, b = (np.ones((128, columns), ml_dtypes.bfloat16) for columns in (96, 256))
    for _ in range(3):
        run = trnsim.run(multiplied, a, b)
        watch.current_watch().writer.look()
    (record,) = read_all(place)
    # The reader is heard after the first run.
    assert record.flop == {0: 2 * 2 * 96 * 128 * 256}
    model = instance_model(record.instance, record.lnc)
    used = groups.neuroncore_counters(record, None, model)["neuroncores_in_use"]["0"]
    assert used["flops"] == round(2 * 96 * 128 * 256 / run.total_time_s)


def test_a_plain_call_of_a_kernel_is_seen_too(place):
    runs.OBSERVERS.present.clear()
    doubled(np.ones((128, 512), np.float32))
    assert [one.tool for one in read_all(place)] == ["kernel"]
    assert runs.OBSERVERS.present == [watch.RUNS]


@pytest.mark.usefixtures("place")
def test_no_kernel_runs_on_an_instance_that_is_not_emulated(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf1.xlarge")
    for run in (trnsim.run, lambda kernel, array: kernel(array)):
        with pytest.raises(
            BadInput, match=r"inf1\.xlarge has Inferentia1, .* not emulated; legal: "
        ):
            run(doubled, np.ones((128, 512), np.float32))
    assert watch.current_watch() is None


def test_nothing_is_counted_while_nobody_listens(place):
    watch.begin("kernel")
    assert not any(isinstance(one, watch.WorkRecording) for one in call_log.recordings)
    folder.listen(place, 10)
    watch.current_watch().writer.look()
    assert watch.current_watch().work in call_log.recordings
    os.utime(place / "listening", (1, 1))
    watch.current_watch().writer.look()
    assert not any(isinstance(one, watch.WorkRecording) for one in call_log.recordings)


@pytest.mark.usefixtures("place")
def test_a_process_is_begun_once_and_not_at_all_where_it_is_off(monkeypatch):
    watch.begin("kernel")
    first = watch.current_watch()
    watch.begin("torch")
    assert watch.current_watch() is first
    watch.end()
    monkeypatch.setenv("TRNSIM_STATE", "off")
    watch.begin("kernel")
    assert watch.current_watch() is None


def test_a_state_that_cannot_be_kept_is_said_once_and_ends_no_program(place, monkeypatch, capsys):
    (place.parent / "file").write_text("")
    monkeypatch.setenv("TRNSIM_STATE", str(place.parent / "file"))
    watch.begin("kernel")
    watch.begin("kernel")
    said = capsys.readouterr().err
    assert said.count("the state of this process is not kept: cannot write to the folder") == 1
    assert watch.current_watch() is None


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("variables", "cores"),
    [
        ({}, (0, 1, 2, 3)),
        ({"LOCAL_RANK": "5"}, (5,)),
        ({"LOCAL_RANK": "5", "NEURON_RT_VISIBLE_CORES": "9"}, (9,)),
        ({"LOCAL_RANK": "1", "NEURON_RT_VISIBLE_CORES": "4-7"}, (4, 5, 6, 7)),
        ({"LOCAL_RANK": "1", "NEURON_RT_NUM_CORES": "1"}, (0,)),
        ({"LOCAL_RANK": "x"}, (0,)),
    ],
)
def test_a_rank_has_the_core_of_its_place(monkeypatch, variables, cores):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    device_core.visible_cores.cache_clear()
    assert watch.own_cores() == cores


def test_a_number_of_cores_is_of_those_that_are_free(place, monkeypatch):
    """configuration-guide.rst: a second program with NEURON_RT_NUM_CORES=3 has other cores."""
    parent, started = os.getppid(), identity.start_time(os.getppid())
    first = ProcessRecord(parent, started, "a.py", "torch", "a", "trn2.48xlarge", 2, (0, 1, 2), 0.0)
    (place / f"{parent}-{started}.json").write_text(to_json(first))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "3")
    device_core.visible_cores.cache_clear()
    watch.begin("kernel")
    assert watch.current_watch().cores == (3, 4, 5)
    assert sorted(one.cores for one in read_all(place)) == [(0, 1, 2), (3, 4, 5)]


def test_a_process_is_named_by_its_tag_and_its_command(place, monkeypatch):
    monkeypatch.setenv("NEURON_PROCESS_TAG", "t" * 300)
    watch.begin("kernel")
    (record,) = read_all(place)
    assert record.tag == "t" * 255
    assert shlex.split(record.command) == [sys.executable, *sys.orig_argv[1:]]


PROGRAM = """
    import json, os, sys, time
    from pathlib import Path
    import torch
    from trnsim.instance.state.folder import listen, state_folder
    from trnsim.instance.state.reader import read_all

    kept = torch.ones(1024, 1024, device="neuron")
    place = state_folder()
    listen(place, 30)
    from trnsim.device import watch
    watch.current_watch().writer.look()
    for _ in range(5):
        product = kept @ kept
    watch.current_watch().writer.look()
    (record,) = read_all(place)
    print(json.dumps({
        "said": torch.neuron.memory_stats(),
        "kept": record.memory_bytes[0],
        "busy": record.busy_s[0], "elapsed": record.elapsed_s[0], "tool": record.tool,
        "completed": record.executions["completed"], "flop": record.flop[0],
    }))
"""


@pytest.mark.slow
def test_memory_of_pytorch_is_what_pytorch_says(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env=os.environ | {"TRNSIM_STATE": str(tmp_path / "state")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    said, kept = found["said"], found["kept"]
    assert kept == {name: said[f"{name}_bytes.all.current"] for name in MEMORY}
    assert kept["tensors"] == said["allocated_bytes.all.current"] >= 4 << 20
    assert kept["model_code"] == 2 * 96 << 20
    assert (found["tool"], found["completed"]) == ("torch", 5)
    assert found["flop"] == 5 * 2 * 1024**3
    assert 0 < found["busy"]["pe"] < found["elapsed"]
    assert not list((tmp_path / "state").glob("*.json"))


def test_a_program_goes_on_where_there_are_no_more_threads(tmp_path, monkeypatch, capsys):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(threading.Thread, "start", refused)
    watch.begin("kernel")
    watch.end()
    said = "trnsim: the state of this process is not kept: can't start new thread\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("value", ["0-", "3-1", "1,1", "0-999", "-1", ""])
def test_a_kernel_does_not_run_on_cores_that_there_are_not(place, monkeypatch, value):  # noqa: ARG001  a state of its own
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", value)
    with pytest.raises(BadInput, match=rf"^NEURON_RT_VISIBLE_CORES='{value}' "):
        trnsim.run(doubled, np.ones((2, 2), np.float32))


def test_a_fault_within_the_file_system_s_grain_of_time_is_met(place):
    """Two changes of a folder may have one time."""
    watch.begin("kernel")
    hardware.inject(place, hardware.StoredFault("thermal", 0, 1, time.time(), None))
    watch.current_watch().read_faults(place)
    found = (place / hardware.FOLDER).stat().st_mtime_ns
    hardware.inject(place, hardware.StoredFault("hang", 0, 0, time.time(), None))
    os.utime(place / hardware.FOLDER, ns=(found, found))
    watch.current_watch().read_faults(place)
    with pytest.raises(HardwareFault, match="NRT_TIMEOUT"):
        trnsim.run(doubled, np.ones((2, 2), np.float32))
