import threading
from dataclasses import dataclass

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.device import device_core, hbm_use, watch
from trnsim.device.hbm import device_memory
from trnsim.instance.model import instance_model
from trnsim.instance.shell.counters import counts_of, levels_of
from trnsim.instance.state import folder
from trnsim.instance.state.record import MEMORY, LoadedModel
from trnsim.memory.allocation import HbmBytes
from trnsim.nki import collectives, isa
from trnsim.nki import language as nl
from trnsim.tools.monitor.config import all_groups
from trnsim.tools.monitor.reports import Monitor
from trnsim.tools.monitor.series import CollectedSeries
from trnsim.tools.top.view import ALL, figures

MIB = 1 << 20


@dataclass
class Loaded:
    """A program."""

    name: str = "forward-0"
    constant_bytes: int = 0
    scratchpad_bytes: int = 0


@dataclass
class Cores:
    """Cores that run a kernel."""

    hbm: HbmBytes


@pytest.fixture(autouse=True)
def nothing(monkeypatch):
    """No program is loaded, and the process has one core."""
    monkeypatch.setattr(watch, "own_cores", lambda: (0,))
    monkeypatch.setattr(hbm_use, "_loaded_programs", hbm_use.defaultdict(dict))
    monkeypatch.setattr(hbm_use, "_running_kernels", {})
    monkeypatch.setattr(hbm_use, "_numbers", {})
    monkeypatch.setattr(hbm_use, "_load_counts", hbm_use.Counter())
    monkeypatch.setattr(hbm_use, "_next_number", hbm_use.count_from(1))


def used(core=0, lnc=2):
    found = hbm_use.by_category(core, lnc)
    assert tuple(found) == MEMORY
    return found


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_device_in_use_has_the_micro_code_of_its_physical_cores(lnc):
    assert used(3, lnc) == dict.fromkeys(MEMORY, 0) | {"model_code": lnc * 96 * MIB}


def test_constants_add_up_and_the_scratchpad_is_the_largest_in_pages():
    for name, found in {
        "one": Loaded("one", 100, 65 * MIB),
        "other": Loaded("other", 11, 64 * MIB),
        "again": Loaded("again", 1000, 1),
    }.items():
        hbm_use.load(0, name, found)
    hbm_use.load(0, "again", Loaded("again", 0, 0))  # in the place of the one before
    assert (used()["constants"], used()["model_shared_scratchpad"]) == (111, 128 * MIB)
    assert used(1)["constants"] == 0


@pytest.mark.parametrize(
    ("lnc", "need_bytes", "pages_bytes"),
    [
        (2, 0, 0),
        (2, 1, 64 * MIB),
        (2, 64 * MIB, 64 * MIB),
        (2, 64 * MIB + 1, 128 * MIB),
        (1, 1, 512 * MIB),
        (1, 512 * MIB + 1, 1024 * MIB),
    ],
)
def test_pages_of_the_scratchpad(lnc, need_bytes, pages_bytes):
    hbm_use.load(0, "program", Loaded("a", 0, need_bytes))
    assert used(lnc=lnc)["model_shared_scratchpad"] == pages_bytes


def test_a_chip_without_logical_cores_has_small_pages(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    device_core.target.cache_clear()
    hbm_use.load(0, "program", Loaded("a", 0, 1))
    found = used(lnc=1)["model_shared_scratchpad"]
    device_core.target.cache_clear()
    assert found == 64 * MIB


def test_what_runs_counts_until_its_thread_has_run_it():
    hbm_use.note_kernel_start(Cores(HbmBytes(10, 20, 30)), "mm", 0)
    other = threading.Thread(
        target=hbm_use.note_kernel_start, args=(Cores(HbmBytes(1, 2, 3)), "mm", 0)
    )
    other.start()
    other.join()
    hbm_use.load(0, "program", Loaded("a", 300, 0))
    held = device_memory(0).live_bytes
    assert (used()["tensors"], used()["constants"]) == (held + 11, 322)
    assert used()["model_shared_scratchpad"] == 64 * MIB
    assert used(1)["constants"] == 0
    hbm_use.note_kernel_end()
    assert (used()["tensors"], used()["constants"]) == (held + 1, 302)


def test_programs_are_numbered_as_they_were_loaded_and_counted():
    hbm_use.load(0, "one", Loaded("one", 7))
    hbm_use.load(1, "one", Loaded("one", 7))
    hbm_use.note_kernel_start(Cores(HbmBytes(constants=5)), "mm", 0)
    assert hbm_use.loaded_models(0, 20) == [
        LoadedModel(1, "one", 20, 7, is_running=False),
        LoadedModel(3, "mm", 20, 5, is_running=True),
    ]
    hbm_use.note_kernel_end()
    hbm_use.load(0, "one", Loaded("one", 8))
    hbm_use.note_kernel_start(Cores(HbmBytes()), "mm", 0)
    hbm_use.note_kernel_end()
    assert hbm_use.loaded_models(0, 20) == [LoadedModel(1, "one", 20, 8, is_running=False)]
    assert hbm_use.loaded_models(1, 21) == [LoadedModel(2, "one", 21, 7, is_running=False)]
    assert hbm_use.loaded_models(2, 22) == []
    assert [hbm_use.load_count(core) for core in range(3)] == [3, 1, 0]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A state of this test's own, told of the runs of kernels."""
    for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES", "LOCAL_RANK", "TRNSIM_INSTANCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    device_core.visible_cores.cache_clear()
    watch._watching.clear()
    yield folder.state_folder()
    watch.end()
    device_core.visible_cores.cache_clear()


SEEN = []
ONES = np.ones((128, 512), np.float32)


@nki.jit
def held(a, b):
    """Holds tensors of each kind, and looks at the state while it runs."""
    own = nl.ndarray((96, 32), nl.bfloat16, buffer=nl.private_hbm)
    table = nl.shared_constant(np.ones((4, 6), np.float32))
    result = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
    nl.store(result, nl.load(a[:, 0:8]))
    SEEN.append(watch.current_watch().record())
    return own.shape[0] // (table.shape[0] - len(b)), result


@pytest.mark.usefixtures("place")
def test_a_kernel_on_host_arrays_holds_hbm_while_it_runs():
    SEEN.clear()
    trnsim.run(held, ONES, (1, 2))
    before = device_memory(0).live_bytes
    with pytest.raises(ZeroDivisionError):
        trnsim.run(held, ONES, (1, 2, 3, 4))
    expected = {
        "tensors": before + 128 * 512 * 4 + 128 * 8 * 4,
        "constants": 4 * 6 * 4,
        "model_code": 2 * 96 * MIB,
        "model_shared_scratchpad": 64 * MIB,
        "runtime_memory": 0,
    }
    first, second = SEEN
    assert first.memory_bytes == second.memory_bytes == {0: expected}
    nothing_more = dict.fromkeys(MEMORY, 0) | {"tensors": before, "model_code": 2 * 96 * MIB}
    assert watch.current_watch().record().memory_bytes == {0: nothing_more}


@pytest.mark.usefixtures("place")
def test_every_reader_shows_the_same_bytes():
    SEEN.clear()
    trnsim.run(held, ONES, (1, 2))
    (record,) = SEEN
    held_bytes = record.memory_bytes[0]
    model = instance_model(record.instance, record.lnc)
    monitor = Monitor(all_groups(), lambda: [record], lambda _: model, lambda _: [])
    report = monitor.report()
    collected = CollectedSeries()
    collected.add(report)
    found = {one.metric.name: one.value for one in collected.series if one.labels.get("neuroncore")}
    shown = figures(report, ALL)
    levels = levels_of([record], model)
    (loaded,) = report["neuron_runtime_data"][0]["report"]["memory_used"]["loaded_models"]
    assert (loaded["name"], loaded["is_running"]) == ("held", True)
    counts = counts_of(record, model)
    assert counts["neuron0/neuron_core0/stats/other_info/model_load_count"] == 1
    for kind, count in held_bytes.items():
        assert found[f"neuroncore_memory_usage_{kind}"] == count
        assert shown.device_bytes(kind) == count
        assert levels[f"neuron0/neuron_core0/stats/memory_usage/device_mem/{kind}"] == count
    total = sum(held_bytes.values())
    assert shown.device_total_bytes == total
    assert levels["neuron0/neuron_core0/stats/memory_usage/device_mem"] == total
    (used,) = (
        one.value
        for one in collected.series
        if one.metric.name == "neuron_runtime_memory_used_bytes"
        and one.labels["memory_location"] == "neuron_device"
    )
    assert used == total


@nki.jit
def exchanged(x, groups):
    """The sum of `x` over the ranks, which look at the state."""
    source = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    isa.dma_copy(dst=source, src=x)
    collectives.all_reduce([source], [whole], groups, nl.add)
    isa.dma_copy(dst=result, src=whole)
    SEEN.append(watch.current_watch().record().memory_bytes)
    return result


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("numerics", [True, False])
def test_each_rank_of_a_kernel_holds_its_own(numerics):
    group = collectives.ReplicaGroup([[0, 1]])
    # Without values, ranks that are given alike arguments share one trace.
    inputs = [(np.full((64, 1), rank * numerics, np.float32), group) for rank in range(2)]
    SEEN.clear()
    trnsim.run(exchanged, ranks=2, inputs=inputs, instance="trn2.48xlarge", numerics=numerics)
    before = device_memory(0).live_bytes
    for core, tensors in {0: before, 1: 0}.items():
        assert SEEN[-1][core]["tensors"] == tensors + 2 * 64 * 4
        assert SEEN[-1][core]["model_shared_scratchpad"] == 512 * MIB
        assert watch.current_watch().record().memory_bytes[core]["tensors"] == tensors
