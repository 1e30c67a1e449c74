import pytest

from trnsim.instance.state.record import ERRORS, STATUSES
from trnsim.tools.monitor.executions import Executions


def program(pid, completed, tag="job", latency_s=None, period_s=1.0):
    group = {
        "period": period_s,
        "execution_summary": dict.fromkeys(STATUSES, 0) | {"completed": completed},
        "error_summary": dict.fromkeys(ERRORS, 0) | {"numerical": 1},
        "latency_stats": {"total_latency": latency_s and {"p50": latency_s}},
    }
    return {"pid": pid, "neuron_runtime_tag": tag, "report": {"execution_stats": group}}


def values(found, name, **labels):
    return [
        one.value
        for one in found.series()
        if one.metric.name == name and labels.items() <= one.labels.items()
    ]


def completed(found, tag="job"):
    return values(found, "execution_status", status_type="completed", runtime_tag=tag)


def test_counts_of_a_tag_never_fall_while_one_of_its_programs_runs():
    """Prometheus takes a count that falls for a new beginning, and adds it once more."""
    found = Executions()
    found.add([program(7, 20), program(8, 40)], 100.0)
    assert completed(found) == [60]
    found.add([program(8, 5, period_s=1.1)], 101.0)
    assert completed(found) == [65]
    found.add([program(8, 5, period_s=1.2), program(7, 1, period_s=1.3)], 102.0)
    assert completed(found) == [71]
    assert values(found, "execution_errors", error_type="numerical") == [5]
    assert {one.since_s for one in found.series() if one.metric.kind == "counter"} == {100.0}


def test_a_tag_that_comes_again_begins_anew():
    found = Executions()
    found.add([program(7, 20), program(9, 1, "other")], 100.0)
    found.add([program(9, 1, "other")], 101.0)
    assert completed(found) == []
    found.add([program(7, 3)], 102.0)
    assert completed(found) == [3]
    assert completed(found, "other") == []


def test_the_longest_latency_of_a_tag_is_its_own():
    found = Executions()
    found.add([program(7, 1, latency_s=0.02), program(8, 1, latency_s=0.05)], 100.0)
    assert values(found, "execution_latency_seconds", percentile="p50") == [0.05]
    found.add([program(7, 0, period_s=1.1)], 101.0)
    assert values(found, "execution_latency_seconds", percentile="p50") == [0.02]


@pytest.mark.parametrize("group", [{}, {"execution_stats": {"period": 1.0, "error": "gone"}}])
def test_what_was_not_measured_changes_nothing(group):
    found = Executions()
    found.add([program(7, 20)], 100.0)
    found.add([program(7, 0) | {"report": group}], 101.0)
    assert completed(found) == [20]
