"""Jobs at random in every format of Kubernetes, and Kubernetes' own schemas of what is written."""

import copy
import json
import subprocess
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest
import test_batch_eks
import test_hyperpod
import test_jobset
import test_kubernetes_job
import test_leader_worker_set
import test_mpijob
import test_pod
import test_pytorchjob
import test_rayjob
import yaml
from hypothesis import given, settings
from kubernetes_jobs import JOBS, read

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.formats.kubernetes import label_name
from trnsim.jobs.rules import findings

CHECKER = Path(__file__).resolve().parents[3] / ".venv-specs" / "bin" / "python"
CHECK = """
import json, sys
import kubernetes_validate
for document in json.load(sys.stdin):
    kubernetes_validate.validate(document, "1.37", strict=True)
"""


@pytest.mark.parametrize("count", [3, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", JOBS)
def test_a_random_job_is_read_as_it_was_written(tmp_path, name, count):
    @settings(max_examples=count)
    @given(JOBS[name])
    def check(job):
        assert read(name, write_spec(job, name), tmp_path).job == job

    check()


@pytest.mark.slow
@pytest.mark.skipif(not CHECKER.exists(), reason="no .venv-specs: make .venv-specs/.made")
@pytest.mark.parametrize("name", ["pod", "job", "hyperpod", "leaderworkerset", "batch-eks"])
def test_kubernetes_accepts_what_is_written(name):
    documents = []

    @settings(max_examples=100)
    @given(test_batch_eks.JOBS if name == "batch-eks" else JOBS[name])
    def collect(job):
        document = yaml.safe_load(write_spec(job, name))
        documents.extend([document] if name in ("pod", "job") else pods_within(document))

    collect()
    assert len(documents) >= 100
    answer = subprocess.run(
        [CHECKER, "-c", CHECK],
        input=json.dumps(documents),
        text=True,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


def pods_within(value):
    """The pods whose specs a document holds, alone."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and "containers" in value:
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": value}
        return
    for item in items:
        yield from pods_within(item)


VALUES = [None, 5, -1, True, 1.5, "x", "", "$X", [], {}, [5], ["a"], {"a": 1}, [{"a": 1}], "8Gi"]
SAMPLES = [
    *(test_pod.POD, test_pod.SERVER, test_kubernetes_job.JOB, test_jobset.JOBSET),
    *(test_hyperpod.TRAINING, test_leader_worker_set.SET),
    *(test_pytorchjob.TRAINING, test_mpijob.TEST, test_rayjob.RAYJOB, test_rayjob.CLUSTER),
]


def places(value, keys=()):
    """Keys of every value in a document."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        yield (*keys, key)
        yield from places(item, (*keys, key))


@pytest.mark.slow
@pytest.mark.parametrize("text", SAMPLES)
def test_a_document_with_a_value_of_another_type_is_read_or_refused(tmp_path, text):
    path = tmp_path / "a.json"
    for document in yaml.safe_load_all(text):
        for keys in places(document):
            for value in VALUES:
                mutant = copy.deepcopy(document)
                inner = reduce(lambda holder, key: holder[key], keys[:-1], mutant)
                inner[keys[-1]] = value
                path.write_text(json.dumps(mutant))
                with suppress(BadInput):
                    for spec in read_specs(path):
                        findings(spec)
                        write_spec(spec.job, spec.format)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("a--b", "a--b"),
        ("My_Job 1", "my-job-1"),
        ("-a.", "a"),
        ("", "x"),
        ("___", "x"),
        ("a" * 62 + "-b", "a" * 62),
        ("${NAME}_a", "${NAME}_a"),
    ],
)
def test_names_are_in_letters_that_kubernetes_allows(name, legal):
    assert label_name(name, "x") == legal
