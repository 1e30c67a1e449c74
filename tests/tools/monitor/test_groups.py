import re

from monitored import record

from trnsim.instance.model import instance_model
from trnsim.instance.state.record import LoadedModel
from trnsim.tools.monitor import groups

MODEL = instance_model("trn2.48xlarge", 2)


def test_utilisation_is_busy_over_elapsed_time_of_the_period():
    cores = groups.neuroncore_counters(record(3), record(1), MODEL)["neuroncores_in_use"]
    assert list(cores) == ["0", "5"]
    assert cores["0"]["neuroncore_utilization"] == 50
    assert cores["0"]["flops"] == (9e9 - 1e9) / 2
    assert (cores["5"]["neuroncore_utilization"], cores["5"]["flops"]) == (0, 0)


def test_a_logical_core_names_its_physical_ones():
    cores = groups.neuroncore_counters(record(1), None, MODEL)["neuroncores_in_use"]
    assert cores["5"]["v3d"] == {
        "nc_v3.10": {"neuroncore_utilization": 0},
        "nc_v3.11": {"neuroncore_utilization": 0},
    }
    single = instance_model("trn2.48xlarge", 1)
    alone = groups.neuroncore_counters(record(1, lnc=1), None, single)["neuroncores_in_use"]
    assert set(alone["0"]) == {"neuroncore_utilization", "flops"}


def test_a_core_without_time_is_idle():
    still = record(1)
    cores = groups.neuroncore_counters(still, still, MODEL)["neuroncores_in_use"]
    assert (cores["0"]["neuroncore_utilization"], cores["0"]["flops"]) == (0, 0)


def test_executions_are_those_of_the_period():
    found = groups.execution_stats(record(4), record(1))
    assert found["execution_summary"]["completed"] == 30
    assert found["execution_summary"]["timed_out"] == 0
    assert found["error_summary"] == {
        "generic": 0, "numerical": 0, "transient": 0, "model": 0, "runtime": 0, "hardware": 3,
    }  # fmt: skip
    assert found["latency_stats"]["total_latency"] == {"p50": 0.02}


def test_without_executions_there_are_no_latencies():
    found = groups.execution_stats(record(1), record(1))
    assert found["latency_stats"] == {"total_latency": None, "device_latency": None}


def test_a_count_that_went_back_began_anew():
    found = groups.execution_stats(record(1), record(4))
    assert found["execution_summary"]["completed"] == 10


def test_memory_is_summed_over_categories_and_cores():
    used = groups.memory_used(record(), MODEL)["neuron_runtime_used_bytes"]
    assert (used["host"], used["neuron_device"]) == (10, 123)
    cores = used["usage_breakdown"]["neuroncore_memory_usage"]
    assert cores["0"] == {
        "constants": 0, "model_code": 20, "model_shared_scratchpad": 0, "runtime_memory": 0,
        "tensors": 100,
    }  # fmt: skip
    assert used["usage_breakdown"]["host"]["dma_buffers"] == 0


def test_a_loaded_program_has_the_pages_fields():
    models = (
        LoadedModel(5, "forward-0", 49, 20971520, is_running=False),
        LoadedModel(6, "mm", 0, 0, is_running=True),
    )
    first, second = groups.memory_used(record(models=models), MODEL)["loaded_models"]
    host = {"application_memory": 0, "constants": 0, "dma_buffers": 0, "tensors": 0}
    device = {"constants": 20971520, "model_code": 0, "runtime_memory": 0, "tensors": 0}
    memory = {
        "host": 0,
        "neuron_device": 20971520,
        "usage_breakdown": {"host": host, "neuron_device": device},
    }
    assert re.fullmatch("[0-9a-f]{32}", first.pop("uuid"))
    assert first == {
        "name": "forward-0",
        "model_id": 10005,
        "is_running": False,
        "subgraphs": {
            "sg_00": {
                "memory_used_bytes": memory,
                "neuroncore_index": 1,
                "neuron_device_index": 12,
            }
        },
    }
    assert second["is_running"] is True
    again, other = (
        groups.memory_used(record(models=models, pid=pid), MODEL)["loaded_models"][1]["uuid"]
        for pid in (7, 8)
    )
    assert second["uuid"] == again != other


def test_latencies_are_those_of_the_whole_period():
    """The page: percentiles for the data captured during the period; the last second is slow."""
    before = record(1, latencies=((0.5, 0.4, 90),))
    now = record(6, latencies=((0.5, 0.4, 90), (0.01, 0.005, 49), (0.1, 0.09, 1)))
    found = groups.execution_stats(now, before)["latency_stats"]
    assert (found["total_latency"]["p50"], found["total_latency"]["p100"]) == (0.01, 0.1)
    assert (found["device_latency"]["p0"], found["device_latency"]["p100"]) == (0.005, 0.09)
    ordered = list(found["total_latency"].values())
    assert ordered == sorted(ordered)


def test_the_hardware_is_the_pages_for_its_instance():
    page = instance_model("trn2n.48xlarge", 2)
    assert groups.hardware_info(page) == {
        "neuron_device_type": "trainium2",
        "neuron_device_version": "v4",
        "neuroncore_version": "v3d",
        "neuron_device_count": 16,
        "neuron_device_memory_size": 103079215104,
        "neuroncore_per_device_count": 4,
        "logical_neuroncore_config": 2,
        "error": "",
    }
    names = ("inf1.xlarge", "trn1.2xlarge", "inf2.xlarge", "trn2.3xlarge", "Trn3 Gen1 UltraServer")
    versions = [
        groups.hardware_info(instance_model(name))["neuron_device_version"] for name in names
    ]
    # The driver has NDv1, NDv2 and NDv3 for the first three.
    assert versions == ["v1", "v2", "v3", "v4", "v5"]
    inf1 = groups.hardware_info(instance_model("inf1.6xlarge"))
    assert inf1["neuron_device_type"] == "inferentia1"
    assert "logical_neuroncore_config" not in inf1


def test_an_instance_says_that_it_is_emulated():
    info = groups.instance_info(MODEL, "i-0")
    assert (info["instance_type"], info["instance_id"]) == ("trn2.48xlarge", "i-0")
    assert "emulated" in info["instance_name"]
