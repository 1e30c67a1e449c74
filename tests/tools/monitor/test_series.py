import copy
import re

import pytest
from monitored import record

from trnsim.instance.model import instance_model
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.metrics import METRICS
from trnsim.tools.monitor.reports import Monitor
from trnsim.tools.monitor.series import CollectedSeries

MODEL = instance_model("trn2.48xlarge", 2)


@pytest.fixture(scope="module")
def reports():
    """Three reports, about 5 s apart, of a program that goes on."""
    now = [0.0]
    monitor = Monitor(
        ALL_GROUPS,
        lambda: [record(1 + now[0])],
        lambda _: MODEL,
        lambda devices: [{"mem_ecc_uncorrected": int(now[0])}] * devices,
        clock=lambda: now[0],
    )
    found = []
    # A clock never ticks twice alike; what is alike to the nanosecond is a repetition.
    for now[0] in (0.0, 5.000001, 10.000003):
        found.append(monitor.report())
    return found


def collected(*reports):
    found = CollectedSeries(lambda: 1000.0)
    for one in reports:
        found.add(copy.deepcopy(one))
    return found


def values(found, name, **labels):
    return [
        one.value
        for one in found.series
        if one.metric.name == name and labels.items() <= one.labels.items()
    ]


def test_counts_of_periods_are_added_up(reports):
    found = collected(*reports)
    assert values(found, "execution_status", status_type="completed") == [10 * 11]
    assert values(found, "execution_errors", error_type="hardware") == [10]
    assert values(found, "hardware_ecc_events", neuron_device_index="3",
                  event_type="mem_ecc_uncorrected") == [10]  # fmt: skip


def test_a_count_of_memory_errors_that_went_back_began_anew(reports):
    now = [1000.0]
    found = CollectedSeries(lambda: now[0])
    begun = []
    for at in (0, 1, 0, 1):
        found.add(copy.deepcopy(reports[at]))
        begun += {one.since_s for one in found.series if one.metric.name == "hardware_ecc_events"}
        now[0] += 1.0
    assert begun == [1000.0, 1000.0, 1002.0, 1002.0]


def test_a_group_that_is_repeated_counts_once(reports):
    found = collected(reports[0], reports[1], reports[1])
    assert values(found, "execution_status", status_type="completed") == [60]


def test_ratios_are_parts_of_one(reports):
    found = collected(*reports)
    assert values(found, "neuroncore_utilization_ratio", neuroncore="0") == [0.5]
    assert all(
        0 <= one.value <= 1.001 for one in found.series if one.metric.name.endswith("_ratio")
    )


def test_the_hosts_usage_has_the_two_types_that_aws_page_adds_up(reports):
    """Its panel vCPU Usage is avg(sum by (instance_id) (system_vcpu_usage_ratio))."""
    report = copy.deepcopy(reports[0])
    parts = {"user": 10.0, "nice": 2.0, "system": 5.0, "idle": 80.0, "io_wait": 1.0, "irq": 1.5,
             "soft_irq": 0.5}  # fmt: skip
    report["system_data"]["vcpu_usage"] |= {"average_usage": parts, "error": ""}
    found = collected(report)
    assert values(found, "system_vcpu_usage_ratio", usage_type="user") == [pytest.approx(0.12)]
    assert values(found, "system_vcpu_usage_ratio", usage_type="system") == [pytest.approx(0.08)]
    assert sum(values(found, "system_vcpu_usage_ratio")) == pytest.approx(1 - 0.80)


def test_latencies_stay_while_nothing_is_executed_and_counters_never_fall(reports):
    idle = copy.deepcopy(reports[1])
    group = idle["neuron_runtime_data"][0]["report"]["execution_stats"]
    group["period"] = 5.1
    group["latency_stats"] = {"total_latency": None, "device_latency": None}
    group["execution_summary"] = dict.fromkeys(group["execution_summary"], 0)
    found = collected(reports[0], idle)
    assert values(found, "execution_latency_seconds", percentile="p50") == [0.02]
    assert values(found, "execution_status", status_type="completed") == [10]


def test_programs_with_one_tag_are_one_series():
    """Eight ranks of a job have one NEURON_PROCESS_TAG; Prometheus takes no sample twice."""
    ranks = [
        record(2, pid=7, tag="job", total_latency_s={"p50": 0.02}),
        record(4, pid=8, tag="job", total_latency_s={"p50": 0.05}, cores=(1,)),
    ]
    monitor = Monitor(ALL_GROUPS, lambda: ranks, lambda _: MODEL, lambda n: [{}] * n, lambda: 0.0)
    found = collected(monitor.report())
    keys = [(one.metric.name, *sorted(one.labels.items())) for one in found.series]
    assert len(keys) == len(set(keys))
    assert values(found, "execution_status", status_type="completed") == [20 + 40]
    assert values(found, "execution_errors", error_type="hardware") == [1 + 3]
    assert values(found, "execution_latency_seconds") == [0.05]
    assert values(found, "neuron_runtime_memory_used_bytes", memory_location="host") == [10 + 10]
    cores = [one.labels["neuroncore"] for one in found.series if "neuroncore" in one.labels
             and one.metric.name == "neuroncore_utilization_ratio"]  # fmt: skip
    assert sorted(cores) == ["0", "1", "5"]


def test_memory_has_its_categories(reports):
    found = collected(reports[0])
    assert values(found, "neuron_runtime_memory_used_bytes", memory_location="neuron_device") == [
        123
    ]
    assert values(found, "neuroncore_memory_usage_tensors", neuroncore="5") == [3]
    assert values(found, "neuroncore_memory_usage_tensors", memory_location="None") == [100, 3]


def test_the_series_of_a_program_end_with_it(reports):
    found = collected(reports[0])
    gone = copy.deepcopy(reports[1])
    gone["neuron_runtime_data"] = []
    found.add(gone)
    assert not any("runtime_tag" in one.labels for one in found.series)
    found.add(copy.deepcopy(reports[2]))
    # The program that comes has counts of its own.
    assert values(found, "execution_status", status_type="completed") == [50]


def test_the_instance_labels_every_series(reports):
    found = collected(reports[0])
    assert found.instance["instance_type"] == "trn2.48xlarge"
    assert set(found.instance) == {
        "instance_id", "instance_name", "instance_type", "availability_zone", "region", "subnet_id",
    }  # fmt: skip


def test_every_metric_has_a_value_and_every_series_of_one_has_the_same_labels(reports):
    found = collected(reports[0])
    labels = {}
    for one in found.series:
        assert labels.setdefault(one.metric.name, set(one.labels)) == set(one.labels)
    assert set(labels) == set(METRICS)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in METRICS)


def test_groups_that_are_missing_or_failed_have_no_series(reports):
    bare = copy.deepcopy(reports[0])
    bare["system_data"] = {"vcpu_usage": {"period": 5, "error": "no"}}
    bare["neuron_runtime_data"][0]["report"] = {"execution_stats": {"period": 5, "error": "no"}}
    names = {one.metric.name for one in collected(bare).series}
    assert names == {"instance", "neuron_hardware"}


def test_two_pods_whose_programs_have_one_tag_have_their_own_series(reports):
    """A program's tag is its number, which is 1 in many containers."""
    first = copy.deepcopy(reports[0])
    (program,) = first["neuron_runtime_data"]
    cores = list(program["report"]["neuroncore_counters"]["neuroncores_in_use"])
    moved = copy.deepcopy(program) | {"pid": program["pid"] + 1}
    for group in (
        moved["report"]["neuroncore_counters"]["neuroncores_in_use"],
        moved["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"][
            "neuroncore_memory_usage"
        ],
    ):
        for core in cores:
            group[str(int(core) + 32)] = group.pop(core)
    first["neuron_runtime_data"].append(moved)
    first["neuron_k8s_info"] = {
        "neuroncores_k8s_info": {
            str(int(core) + added): {
                "pod_name": name, "namespace": "n", "container_name": ["c"],
            }
            for core in cores
            for name, added in (("p", 0), ("q", 32))
        }
    }  # fmt: skip
    found = CollectedSeries(lambda: 1000.0, has_pods=True)
    found.add(first)
    for pod in ("p", "q"):
        assert values(found, "execution_status", status_type="completed", pod=pod) == [10]
        assert len(values(found, "neuroncore_utilization_ratio", pod=pod)) == len(cores)
    assert values(found, "system_vcpu_count", pod="") == []
    assert values(found, "hardware_ecc_events", pod="", neuron_device_index="0") == [0]


def test_reports_of_a_node_have_its_pods(reports):
    assert "neuron_k8s_info" not in reports[0]
    monitor = Monitor(
        ALL_GROUPS,
        list,
        lambda _: MODEL,
        lambda devices: [{}] * devices,
        pods=lambda: {"period": 1},
    )
    assert monitor.report()["neuron_k8s_info"] == {"period": 1}
