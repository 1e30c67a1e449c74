from dataclasses import replace

import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.price import price_job

SET = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 3
  startupPolicy: LeaderCreated
  leaderWorkerTemplate:
    size: 4
    leaderTemplate:
      spec:
        nodeSelector: {node.kubernetes.io/instance-type: trn2.48xlarge}
        containers:
          - name: leader
            image: vllm
            command: [vllm, serve, llama-3.1-8b]
            resources: {limits: {aws.amazon.com/neuron: 16}}
    workerTemplate:
      spec:
        nodeSelector: {node.kubernetes.io/instance-type: trn2.48xlarge}
        containers:
          - name: ray
            image: vllm
            resources: {limits: {aws.amazon.com/neuron: 16}}
"""
SERVER = Role(instance="trn2.48xlarge", devices=16, image="vllm")
WORKERS = replace(SERVER, name="worker", replicas=3)


def test_a_set_is_read_whole_and_written_back(tmp_path):
    spec = read("leaderworkerset", SET, tmp_path)
    words = ("vllm", "serve", "llama-3.1-8b")
    assert spec.job.roles == (
        replace(SERVER, name="leader", command=words, entry_words=3),
        WORKERS,
    )
    assert (spec.job.name, spec.job.kind, spec.job.copies) == ("vllm", JobKind.SERVING, 3)
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].name",
        "spec.startupPolicy",
    ]
    lines = {"copies": 5, "roles.1.replicas": 8, "roles.0.devices": 16, "roles.1.devices": 23}
    assert {name: spec.line_of(name).line for name in lines} == lines
    text = write_spec(spec.job, "leaderworkerset")
    assert read("leaderworkerset", text, tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("before", "after", "copies", "workers"),
    [
        ("replicas: 3", "replicas: 0", 0, 3),
        ("replicas: 3", "x: 3", 1, 3),
        ("replicas: 3", "replicas: $N", 1, 3),
        ("size: 4", "size: 1", 3, 0),
        ("size: 4", "x: 4", 3, 0),
        ("size: 4", "size: $N", 3, None),
    ],
)
def test_groups_are_copies_of_a_leader_and_workers(tmp_path, before, after, copies, workers):
    spec = read("leaderworkerset", SET.replace(before, after), tmp_path)
    assert (spec.job.copies, spec.job.roles[1].replicas) == (copies, workers)
    text = write_spec(spec.job, "leaderworkerset")
    assert read("leaderworkerset", text, tmp_path).job == spec.job


def test_without_a_template_of_its_own_the_leader_is_a_worker(tmp_path):
    start, end = SET.index("    leaderTemplate"), SET.index("    workerTemplate")
    spec = read("leaderworkerset", SET[:start] + SET[end:], tmp_path)
    assert spec.job.roles == (replace(WORKERS, replicas=4),)
    text = write_spec(spec.job, "leaderworkerset")
    assert read("leaderworkerset", text, tmp_path).job == spec.job


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_every_instance_of_every_group_has_its_price(tmp_path, groups):
    text = SET.replace("replicas: 3", f"replicas: {groups}").replace("llama-3.1-8b", "nobody")
    one = price_job(Job(kind=JobKind.SERVING, roles=(SERVER,))).usd_per_hour
    price = price_job(read("leaderworkerset", text, tmp_path).job)
    assert price.usd_per_hour == pytest.approx(4 * groups * one)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("size: 4", "size: 0", "8: .*size is 0; legal: a whole number from 1"),
        ("size: 4", "size: four", "8: .*size is 'four'; legal: a whole number"),
        ("replicas: 3", "replicas: -1", "5: .*replicas is -1; legal: a whole number"),
        ("workerTemplate:", "other:", "workerTemplate.spec.containers is missing; legal: a list"),
        ("leaderTemplate:", "leaderTemplate: 5\n    x:", "9: .*leaderTemplate is 5; legal: a map"),
    ],
)
def test_a_malformed_set_is_refused_at_its_line(tmp_path, before, after, why):
    with pytest.raises(BadInput, match=why):
        read("leaderworkerset", SET.replace(before, after), tmp_path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": JobKind.TRAINING}, "runs for ever; the job is of kind training"),
        ({"roles": ()}, "0 roles; a LeaderWorkerSet has 1 to 2 roles"),
        ({"roles": (Role(replicas=2), Role())}, "2 replicas; the leader of a group is one"),
        ({"roles": (Role(replicas=0),)}, "0 replicas; a group has 1 pod or more"),
        ({"roles": (Role(replicas=None),)}, "the number of replicas is not stated"),
        ({"copies": 1_000_001}, "1,000,001 copies; a LeaderWorkerSet has at most 1,000,000"),
    ],
)
def test_a_job_that_no_set_expresses_is_refused(changes, why):
    job = Job(kind=JobKind.SERVING, roles=(Role(),))
    with pytest.raises(BadInput, match=why):
        write_spec(replace(job, **changes), "leaderworkerset")
