"""What `tests/jobs/rules/twins` has not: what is left open, and what lies at the edge."""

import json

import pytest

from trnsim.jobs.formats.value_limits import value_limits
from trnsim.reader import load_documents


def reasons(tmp_path, name, document):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    return [fault.reason for fault, _ in value_limits(name, load_documents(path)[0].root)]


@pytest.mark.parametrize(("attempts", "count"), [(1, 0), (10, 0), (0, 1), (11, 1), ("$N", 0)])
def test_a_batch_job_is_tried_ten_times_at_most(tmp_path, attempts, count):
    document = {"retryStrategy": {"attempts": attempts, "evaluateOnExit": []}}
    assert len(reasons(tmp_path, "batch", document)) == count
    assert reasons(tmp_path, "ecs", document) == []


def test_the_main_node_is_one_of_the_nodes(tmp_path):
    for main, count in ((0, 0), (1, 0), (2, 1), (-1, 1), ("${MAIN}", 0), (True, 0)):
        document = {"nodeProperties": {"mainNode": main, "numNodes": 2}}
        assert len(reasons(tmp_path, "batch-eks", document)) == count
    assert reasons(tmp_path, "batch", {"retryStrategy": 3, "nodeProperties": []}) == []


@pytest.mark.parametrize(
    ("is_spot", "condition", "count"),
    [
        (True, {"MaxRuntimeInSeconds": 5, "MaxWaitTimeInSeconds": 5}, 0),
        (True, {"MaxRuntimeInSeconds": 5, "MaxWaitTimeInSeconds": "$WAIT"}, 0),
        (True, {"MaxRuntimeInSeconds": 5}, 1),
        (False, {"MaxRuntimeInSeconds": 5}, 0),
        (False, {"MaxRuntimeInSeconds": 5, "MaxWaitTimeInSeconds": 4}, 1),
        (True, "${CONDITION}", 0),
    ],
)
def test_a_training_waits_as_long_as_it_may_run(tmp_path, is_spot, condition, count):
    document = {"EnableManagedSpotTraining": is_spot, "StoppingCondition": condition}
    assert len(reasons(tmp_path, "sagemaker-training", document)) == count
