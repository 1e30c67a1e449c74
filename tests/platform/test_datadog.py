"""Datadog's base check of OpenMetrics scrapes an exporter: names, tags and the state's values."""

import json
import os
import sys
from collections import defaultdict

import pytest
from datadog_program import NAMES
from found_programs import FOLDER, exporter, fetched, printed, running, wait_for
from made_program import BUSY, CORES

from trnsim.instance.state.reader import read_all
from trnsim.instance.state.record import HOST_MEMORY, MEMORY

TAG = "made"
PREFIX = "aws_neuron."
COUNTERS = {
    *("execution_errors", "execution_status", "hardware_ecc_events", "process_cpu_seconds"),
    *("python_gc_collections", "python_gc_objects_collected", "python_gc_objects_uncollectable"),
}


def submitted(url, *options):
    """What Datadog would submit: values by their tags, of each name."""
    program = str(FOLDER / "datadog_program.py")
    found = defaultdict(dict)
    for one in json.loads(printed(sys.executable, program, url, *options)):
        found[one["name"].removeprefix(PREFIX)][frozenset(one["tags"])] = one["value"]
    return found


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """What Datadog submits in both formats, and the state's record before and after."""
    folder = tmp_path_factory.mktemp("datadog") / "state"
    place = {"TRNSIM_STATE": str(folder), "TRNSIM_INSTANCE": "trn2.48xlarge"}
    made = (sys.executable, str(FOLDER / "made_program.py"))
    with exporter(**place) as url, running(*made, NEURON_PROCESS_TAG=TAG, **place):
        is_shown = f'runtime_tag="{TAG}"'.encode()
        wait_for(lambda: is_shown in fetched(url), "a program in the series")
        (before,) = read_all(folder)
        text, latest = submitted(url), submitted(url, "latest")
        (after,) = read_all(folder)
    return before, text, latest, after


def values(found, name, tag=f"runtime_tag:{TAG}"):
    """Values of a name by their other tags' values."""
    labels = ("neuroncore:", "memory_location:", "percentile:", "status_type:", "error_type:")
    return {
        tuple(part.partition(":")[2] for part in sorted(tags) if part.startswith(labels)): value
        for tags, value in found[name].items()
        if tag in tags
    }


def test_all_names_are_found_and_without_the_times_of_counters_in_the_latest_format(scraped):
    _, text, latest, _ = scraped
    expected = {f"{name}.count" if name in COUNTERS else name for name in NAMES}
    assert len(NAMES) == len(expected) == 33
    assert set(text) == expected
    assert set(latest) == {name for name in expected if not name.endswith("_created")}
    assert len(latest) == 30


def test_memory_is_the_states(scraped):
    before, text, _, _ = scraped
    for kind in MEMORY:
        assert values(text, f"neuroncore_memory_usage_{kind}") == {
            ("None", str(core)): before.memory_bytes[core][kind] for core in CORES
        }
    assert values(text, "neuron_runtime_memory_used_bytes") == {
        ("host",): sum(before.host_bytes[name] for name in HOST_MEMORY),
        ("neuron_device",): sum(sum(one.values()) for one in before.memory_bytes.values()),
    }


def test_executions_errors_and_latencies_are_the_states(scraped):
    before, text, _, after = scraped
    counted = values(text, "execution_status.count")
    completed = counted.pop(("completed",))
    # The exporter's last report is up to a second older than the state.
    assert before.executions["completed"] - 30 <= completed <= after.executions["completed"]
    still = {(name,): count for name, count in before.executions.items() if name != "completed"}
    assert counted == still
    assert values(text, "execution_errors.count") == {
        (name,): count for name, count in before.errors.items()
    }
    assert values(text, "execution_latency_seconds") == {
        (name,): time_s for name, time_s in before.total_latency_s.items()
    }


def test_utilisation_is_a_ratio(scraped):
    _, text, _, _ = scraped
    found = values(text, "neuroncore_utilization_ratio")
    assert found == {(str(core),): pytest.approx(BUSY, abs=1e-3) for core in CORES}


def test_the_instance_is_named_and_its_devices_are_counted(scraped):
    _, text, _, _ = scraped
    ((tags, value),) = text["neuron_hardware_info"].items()
    assert value == 1
    assert {
        "instance_type:trn2.48xlarge",
        "neuron_device_count:16",
        "neuroncore_per_device_count:4",
        f"neuron_device_memory_size:{96 << 30}",
    } <= tags
    assert len(text["hardware_ecc_events.count"]) == 16 * 4
    assert set(text["hardware_ecc_events.count"].values()) == {0}
    ((_, vcpus),) = text["system_vcpu_count"].items()
    assert vcpus == os.cpu_count()
