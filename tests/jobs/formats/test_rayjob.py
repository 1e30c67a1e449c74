from dataclasses import replace

import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role

RAYJOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune}
spec:
  entrypoint: python tune.py --tp 8
  activeDeadlineSeconds: 3600
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {dashboard-host: 0.0.0.0}
      template:
        spec: {containers: [{name: ray-head, image: ray, resources: {requests: {cpu: 8}}}]}
    workerGroupSpecs:
      - groupName: trn
        replicas: 4
        minReplicas: 1
        maxReplicas: 10
        rayStartParams: {}
        template:
          spec:
            nodeSelector: {node.kubernetes.io/instance-type: trn2.48xlarge}
            containers:
              - name: ray-worker
                image: ray
                args: [ray, start]
                resources: {limits: {aws.amazon.com/neuron: 16}}
"""
CLUSTER = """\
apiVersion: ray.io/v1alpha1
kind: RayCluster
metadata: {name: pool}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: head, image: ray}]}}
"""


def test_a_rayjob_is_read_whole_and_written_back(tmp_path):
    spec = read("rayjob", RAYJOB, tmp_path)
    assert spec.job.roles == (
        Role(name="head", vcpus=8, image="ray", command=("python", "tune.py", "--tp", "8")),
        Role(
            name="trn",
            replicas=4,
            least_replicas=1,
            instance="trn2.48xlarge",
            devices=16,
            image="ray",
        ),
    )
    assert (spec.job.kind, spec.job.time_limit_s) == (JobKind.TRAINING, 3600)
    worker = "spec.rayClusterSpec.workerGroupSpecs[0]"
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.rayClusterSpec.headGroupSpec.rayStartParams.dashboard-host",
        f"{worker}.maxReplicas",
        f"{worker}.template.spec.containers[0].args[0]",
        f"{worker}.template.spec.containers[0].args[1]",
        "spec.shutdownAfterJobFinishes",
    ]
    lines = {
        "roles.0.command": 5,
        "roles.0.vcpus": 12,
        "roles.1.replicas": 15,
        "roles.1.devices": 26,
    }
    assert {name: spec.line_of(name).line for name in lines} == lines
    assert read("rayjob", write_spec(spec.job, "rayjob"), tmp_path).job == spec.job


@pytest.mark.parametrize("line", ["a && b", "a 'b", "a  b", "", "python 'a b'", "sh -c 'x; y'"])
def test_an_entry_point_is_a_line_of_a_shell(tmp_path, line):
    text = RAYJOB.replace("python tune.py --tp 8", f'"{line}"')
    spec = read("rayjob", text, tmp_path)
    written = write_spec(spec.job, "rayjob")
    again = read("rayjob", written, tmp_path)
    assert again.job == spec.job


def test_a_cluster_waits_for_jobs_and_may_have_no_workers(tmp_path):
    spec = read("rayjob", CLUSTER, tmp_path)
    assert (spec.job.kind, len(spec.job.roles)) == (JobKind.CLUSTER, 1)
    text = write_spec(spec.job, "rayjob")
    assert text.startswith("apiVersion: ray.io/v1alpha1\nkind: RayCluster\n")
    assert read("rayjob", text, tmp_path).job == spec.job


def test_a_job_on_a_cluster_of_others_has_no_roles(tmp_path):
    text = "apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  clusterSelector: {ray.io/cluster: pool}\n"
    assert read("rayjob", text, tmp_path).job.roles == ()


def test_a_replica_of_several_hosts_has_as_many_pods(tmp_path):
    text = RAYJOB.replace("replicas: 4", "replicas: 4\n        numOfHosts: 3")
    spec = read("rayjob", text, tmp_path)
    workers = spec.job.roles[1]
    assert (workers.replicas, workers.least_replicas) == (12, 3)
    written = write_spec(spec.job, "rayjob")
    for line in ("replicas: 4", "minReplicas: 1", "maxReplicas: 10", "numOfHosts: 3"):
        assert line in written
    assert read("rayjob", written, tmp_path).job == spec.job
    roles = (spec.job.roles[0], replace(workers, replicas=13))
    with pytest.raises(BadInput, match=r"13 pods in replicas of 3 hosts"):
        write_spec(replace(spec.job, roles=roles), "rayjob")


@pytest.mark.parametrize(
    ("replicas", "expected"), [("replicas: $N", (None, 1)), ("x: 1", (1, None))]
)
def test_workers_that_are_not_stated_are_the_fewest(tmp_path, replicas, expected):
    spec = read("rayjob", RAYJOB.replace("replicas: 4", replicas), tmp_path)
    assert (spec.job.roles[1].replicas, spec.job.roles[1].least_replicas) == expected
    assert read("rayjob", write_spec(spec.job, "rayjob"), tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("entrypoint: python", "entrypoint: [a]\n  x: python", r"5: spec.entrypoint is \['a'\]"),
        ("    headGroupSpec:", "    x:", "8: .*headGroupSpec.template.spec.containers is missing"),
        ("workerGroupSpecs:", "workerGroupSpecs: 5\n    x:", "13: .*workerGroupSpecs is 5; legal"),
        ("replicas: 4", "replicas: x", "15: .*replicas is 'x'; legal: a whole number"),
        ("rayClusterSpec:", "rayClusterSpec: 5\n  x:", "8: spec.rayClusterSpec is 5; legal"),
    ],
)
def test_a_malformed_rayjob_is_refused_at_its_line(tmp_path, before, after, why):
    with pytest.raises(BadInput, match=why):
        read("rayjob", RAYJOB.replace(before, after, 1), tmp_path)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(), "the job has 0 roles; a RayJob has 1 to 100 roles"),
        (Job(roles=(Role(),), kind=JobKind.SERVING), "a RayJob or RayCluster is no server"),
        (Job(roles=(Role(replicas=2),)), "2 replicas; the head of a RayJob is one"),
        (
            Job(roles=(Role(), Role(name="w", command=("a",)))),
            "role 'w' has a command; the program",
        ),
        (
            Job(roles=(Role(command=("a",)),), kind=JobKind.CLUSTER),
            "a RayCluster has none",
        ),
        (
            Job(roles=(Role(),), kind=JobKind.CLUSTER, time_limit_s=1),
            "a RayCluster has no time limit",
        ),
    ],
)
def test_a_job_that_ray_does_not_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "rayjob")
