from dataclasses import replace

import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role

JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: pretrain}
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
    - name: leader
      template:
        spec:
          activeDeadlineSeconds: 600
          template:
            spec:
              containers: [{name: main, image: a}]
    - name: workers
      replicas: 2
      template:
        spec:
          parallelism: 8
          completions: 8
          activeDeadlineSeconds: 600
          backoffLimit: 0
          template:
            spec:
              restartPolicy: Never
              containers:
                - name: train
                  image: b
                  resources: {limits: {aws.amazon.com/neuron: 16}}
"""


def test_a_jobset_is_read_whole_and_written_back(tmp_path):
    spec = read("jobset", JOBSET, tmp_path)
    assert spec.job.roles == (
        Role(name="leader", replicas=1, image="a"),
        Role(name="workers", replicas=16, devices=16, image="b"),
    )
    assert (spec.job.name, spec.job.time_limit_s) == ("pretrain", 600)
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.failurePolicy.maxRestarts",
        "spec.replicatedJobs[1].replicas",
        "spec.replicatedJobs[1].template.spec.backoffLimit",
        "spec.replicatedJobs[1].template.spec.template.spec.containers[0].name",
    ]
    lines = {"roles.0.name": 7, "roles.1.name": 14, "roles.1.replicas": 15, "roles.1.devices": 28}
    assert {name: spec.line_of(name).line for name in lines} == lines
    text = write_spec(spec.job, "jobset")
    assert "parallelism: 8" in text
    assert read("jobset", text, tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("before", "after", "replicas"),
    [
        ("replicas: 2", "replicas: 0", 0),
        ("replicas: 2", "replicas: $JOBS", None),
        ("parallelism: 8", "parallelism: $PODS", None),
        ("parallelism: 8", "parallelism: 4", 8),
        ("parallelism: 8", "parallelism: 0", 0),
    ],
)
def test_replicas_are_jobs_times_pods(tmp_path, before, after, replicas):
    spec = read("jobset", JOBSET.replace(before, after), tmp_path)
    assert spec.job.roles[1].replicas == replicas
    text = write_spec(spec.job, "jobset")
    assert after in text
    assert read("jobset", text, tmp_path).job == spec.job


def test_time_limits_that_differ_are_kept(tmp_path):
    text = JOBSET.replace("Seconds: 600\n          t", "Seconds: 6\n          t")
    spec = read("jobset", text, tmp_path)
    assert spec.job.time_limit_s is None
    assert sum("activeDeadlineSeconds" in kept.name for kept in spec.job.kept_fields) == 2


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("replicatedJobs:", "other:", "4: spec.replicatedJobs is missing; legal: a list of one"),
        ("replicatedJobs:", "replicatedJobs: []\n  x:", r"6: spec.replicatedJobs is \[\]"),
        ("Seconds: 600", "Seconds: [600]", r"10: .*Seconds is \[600\]; legal: a whole number"),
        ("replicas: 2", "replicas: two", "15: .*replicas is 'two'; legal: a whole number"),
        ("containers: [{name: main, image: a}]", "containers: 5", "13: .*containers is 5; legal"),
        ("      replicas: 2\n      template:\n", "      template: 5\n      x:\n", "15: .*is 5"),
    ],
)  # fmt: skip
def test_a_malformed_jobset_is_refused_at_its_line(tmp_path, before, after, why):
    with pytest.raises(BadInput, match=why):
        read("jobset", JOBSET.replace(before, after, 2 if "Seconds" in before else 1), tmp_path)


def test_a_job_that_no_jobset_expresses_is_refused(tmp_path):
    with pytest.raises(BadInput, match="a JobSet runs to its end; the job is of kind serving"):
        write_spec(Job(roles=(Role(),), kind=JobKind.SERVING), "jobset")
    with pytest.raises(BadInput, match="the job has 0 roles; a JobSet has 1 to 100 roles"):
        write_spec(Job(), "jobset")
    job = read("jobset", JOBSET, tmp_path).job
    job = replace(job, roles=(job.roles[0], replace(job.roles[1], replicas=3)))
    with pytest.raises(BadInput, match="role 'workers': 3 replicas in 2 jobs of equal size"):
        write_spec(job, "jobset")
