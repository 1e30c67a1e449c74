from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.instance.model import instance_model
from trnsim.instance.shell import sysfs
from trnsim.instance.shell.counters import Counters, counts_of, errors_of, levels_of
from trnsim.instance.state.hardware import KINDS, StoredFault
from trnsim.instance.state.record import ERRORS, HOST_MEMORY, MEMORY, STATUSES, ProcessRecord

TRN2 = instance_model("trn2.48xlarge", 2)


def record(pid=1, cores=(5,), lnc=2, **fields):
    return ProcessRecord(
        pid=pid,
        start_time=f"{pid}00",
        command="python x.py",
        tool="torch",
        tag=str(pid),
        instance="trn2.48xlarge",
        lnc=lnc,
        cores=cores,
        updated_at=0.0,
        **fields,
    )


def test_a_logical_core_stands_at_the_first_of_its_physical_ones():
    """Core 5 of LNC=2 is on device 1 (4 logical cores each): physical cores 2 and 3 there."""
    found = levels_of([record(memory_bytes={5: {"tensors": 10, "constants": 5}})], TRN2)
    memory = "neuron1/neuron_core2/stats/memory_usage/device_mem"
    assert found == {memory: 15, f"{memory}/tensors": 10, f"{memory}/constants": 5}
    single = levels_of([record(lnc=1, cores=(13,), memory_bytes={13: {"tensors": 1}})], TRN2)
    assert f"{'neuron1/neuron_core5'}/stats/memory_usage/device_mem" in single


def test_executions_stand_at_the_first_core_by_their_status():
    found = counts_of(
        record(
            cores=(6, 7),
            executions={"completed": 9, "timed_out": 2, "failed_to_queue": 0},
            errors={"hardware": 1, "numerical": 4},
            flop={6: 100.0, 7: 50.0},
        ),
        TRN2,
    )
    first, second = ("neuron1/neuron_core4/stats", "neuron1/neuron_core6/stats")
    assert found == {
        f"{first}/status/success": 9,
        f"{first}/status/timeout": 2,
        f"{first}/status/hw_error": 1,
        f"{first}/other_info/inference_count": 9,
        f"{first}/other_info/flop_count": 100,
        f"{second}/other_info/flop_count": 50,
    }


def test_host_memory_stands_at_the_device_and_in_sum_at_the_core():
    found = levels_of([record(host_bytes={"tensors": 3, "dma_buffers": 4})], TRN2)
    host = "neuron1/stats/memory_usage/host_mem"
    assert found == {
        f"{host}/tensors": 3,
        f"{host}/dma_buffers": 4,
        "neuron1/neuron_core2/stats/memory_usage/host_mem": 7,
    }


def test_errors_of_a_memory_stand_at_its_device_where_sysfs_counts_them():
    ecc = "neuron3/stats/hardware/mem_ecc_uncorrected"
    faults = [StoredFault(kind, 3, 1, 0.0, None, is_cleared=True) for kind in KINDS] * 2
    assert errors_of(faults, TRN2) == {ecc: 2}
    assert ecc in sysfs.device_files(TRN2, TRN2.devices[3])
    assert not errors_of([replace(one, device=16) for one in faults], TRN2)
    counters = Counters(TRN2)
    assert counters.update([], faults[:4]) == {ecc}
    assert counters.update([], faults) == {ecc}
    assert counters.values(ecc)["total"] == 2
    assert counters.update([], faults) == set()


def test_a_process_without_cores_counts_nothing():
    idle = record(cores=(), executions={"completed": 1}, host_bytes={"tensors": 1})
    assert not counts_of(idle, TRN2)
    assert not levels_of([idle], TRN2)


def test_everything_that_a_record_may_say_has_a_file():
    files = sysfs.device_files(TRN2, TRN2.devices[1])
    full = record(
        executions=dict.fromkeys(STATUSES, 1),
        errors=dict.fromkeys(ERRORS, 1),
        memory_bytes={5: dict.fromkeys(MEMORY, 1)},
        host_bytes=dict.fromkeys(HOST_MEMORY, 1),
        flop={5: 1},
        device_latency_s={"p50": 1e-6},
    )
    found = counts_of(full, TRN2) + levels_of([full], TRN2)
    for name in found:
        assert (name if "/other_info/" in name else f"{name}/total") in files
    statuses = {name.rpartition("/")[2] for name in found if "/status/" in name}
    assert len(statuses) == len(STATUSES) + 2  # generic and hardware errors


SUCCESS = "neuron1/neuron_core2/stats/status/success"
TENSORS = "neuron1/neuron_core2/stats/memory_usage/device_mem/tensors"


def has(tensors, completed=0, pid=1):
    return record(
        pid=pid, memory_bytes={5: {"tensors": tensors}}, executions={"completed": completed}
    )


def test_total_is_now_present_the_last_change_and_peak_the_most():
    counters = Counters(TRN2)
    shown = []
    for size in (100, 70, 70, 90):
        changed = counters.update([has(size)])
        assert (TENSORS in changed) == (size != 70 or len(shown) == 1)
        shown.append(tuple(counters.values(TENSORS).values()))
    assert shown == [(100, 100, 100), (70, 30, 100), (70, 30, 100), (90, 20, 100)]


def test_what_an_ended_process_has_done_stays_and_what_it_had_goes():
    counters = Counters(TRN2)
    counters.update([has(100, 3), has(50, 4, pid=2)])
    counters.update([has(50, 5, pid=2)])
    assert counters.values(SUCCESS)["total"] == 8
    assert counters.values(TENSORS) == {"total": 50, "present": 100, "peak": 150}
    counters.update([])
    assert counters.values(SUCCESS)["total"] == 8
    assert counters.values(TENSORS)["total"] == 0
    # The number of an ended process is another's by now: it counts from 0.
    counters.update([replace(has(0, 2), start_time="later")])
    assert counters.values(SUCCESS)["total"] == 10


def test_a_file_that_was_set_to_zero_counts_from_there():
    counters = Counters(TRN2)
    counters.update([has(0, 5)])
    counters.clear(SUCCESS, "total")
    assert counters.values(SUCCESS) == {"total": 0, "present": 5, "peak": 5}
    assert counters.update([has(0, 5)]) == set()
    counters.update([has(0, 7)])
    assert counters.values(SUCCESS)["total"] == 2
    assert counters.values("neuron0/never")["total"] == 0


def test_requests_to_reset_a_device_are_counted_at_each_core():
    counters = Counters(TRN2)
    for _ in range(2):
        changed = counters.reset(3)
    assert changed == {
        f"neuron3/neuron_core{core}/stats/other_info/reset_req_count" for core in range(8)
    }
    assert {counters.values(name)["total"] for name in changed} == {2}
    assert counters.update([]) == set()


def test_processes_of_another_instance_are_none_of_this_one():
    counters = Counters(TRN2)
    assert counters.update([replace(has(9, 9), instance="trn2.3xlarge")]) == set()


@given(
    st.lists(
        st.dictionaries(
            st.integers(1, 4), st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=4
        ),
        max_size=12,
    )
)
def test_totals_are_those_of_a_plain_sum(looks):
    """Of bytes, what lives now; of executions, the last that each process was seen with."""
    counters, done = Counters(TRN2), {}
    lived, starts = set(), {}
    most = 0
    for number, look in enumerate(looks):
        for pid in look:
            if pid not in lived:
                starts[pid] = f"{number}"
                done[pid, starts[pid]] = 0
            done[pid, starts[pid]] += look[pid][1]
        lived = set(look)
        counters.update(
            replace(has(size, done[pid, starts[pid]], pid), start_time=starts[pid])
            for pid, (size, _) in look.items()
        )
        now = sum(size for size, _ in look.values())
        most = max(most, now)
        assert counters.values(TENSORS)["total"] == now
        assert counters.values(TENSORS)["peak"] == most
        assert counters.values(SUCCESS)["total"] == sum(done.values())


@pytest.mark.parametrize("name", ["inf1.xlarge", "trn1.2xlarge", "Trn3 Gen1 UltraServer"])
def test_the_last_core_of_every_instance_has_a_folder(name):
    model = instance_model(name, 1)
    last = model.cores - 1
    found = counts_of(
        replace(record(cores=(last,), lnc=1, executions={"completed": 1}), instance=name), model
    )
    files = sysfs.device_files(model, model.devices[-1])
    assert all(f"{counter}/total" in files or counter in files for counter in found)
