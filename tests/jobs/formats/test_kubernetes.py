"""Jobs at random in every format of Kubernetes, and Kubernetes' own schemas of what is written."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from kubernetes_jobs import JOBS, read

from trnsim.jobs.formats import write_spec
from trnsim.jobs.formats.kubernetes import label_name

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
@pytest.mark.parametrize("name", ["pod", "job"])
def test_kubernetes_accepts_what_is_written(name):
    documents = []

    @settings(max_examples=100)
    @given(JOBS[name])
    def collect(job):
        documents.append(yaml.safe_load(write_spec(job, name)))

    collect()
    answer = subprocess.run(
        [CHECKER, "-c", CHECK],
        input=json.dumps(documents),
        text=True,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


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
