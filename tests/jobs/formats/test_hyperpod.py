import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role

TRAINING = """\
apiVersion: sagemaker.amazonaws.com/v1
kind: HyperPodPyTorchJob
metadata: {name: pretrain}
spec:
  nprocPerNode: "32"
  elasticPolicy: {minReplicas: 2}
  runPolicy: {activeDeadlineSeconds: 3600, jobMaxRetryCount: 10}
  replicaSpecs:
    - name: pods
      replicas: 4
      spares: 1
      template:
        spec:
          nodeSelector: {node.kubernetes.io/instance-type: ml.trn1.32xlarge}
          containers:
            - name: pytorch
              image: me
              command: [hyperpodrun, --nnodes=4, train.py]
              resources: {limits: {aws.amazon.com/neuron: 16, vpc.amazonaws.com/efa: 8}}
"""


def test_a_hyperpod_job_is_read_whole_and_written_back(tmp_path):
    spec = read("hyperpod", TRAINING, tmp_path)
    assert spec.job.roles == (
        Role(
            name="pods",
            replicas=4,
            least_replicas=2,
            instance="ml.trn1.32xlarge",
            processes=32,
            devices=16,
            efa=8,
            image="me",
            command=("hyperpodrun", "--nnodes=4", "train.py"),
            entry_words=3,
        ),
    )
    assert (spec.job.name, spec.job.time_limit_s) == ("pretrain", 3600)
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.replicaSpecs[0].spares",
        "spec.runPolicy.jobMaxRetryCount",
    ]
    lines = {
        "roles.0.name": 9,
        "roles.0.replicas": 10,
        "roles.0.least_replicas": 6,
        "roles.0.processes": 5,
        "roles.0.efa": 19,
        "time_limit_s": 7,
    }
    assert {name: spec.line_of(name).line for name in lines} == lines
    assert read("hyperpod", write_spec(spec.job, "hyperpod"), tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [("replicas: 4", 4), ("replicas: 0", 0), ("replicas: $N", None), ("x: 1", 0)],
)
def test_a_role_without_replicas_has_none(tmp_path, replicas, expected):
    spec = read("hyperpod", TRAINING.replace("replicas: 4", replicas), tmp_path)
    assert spec.job.roles[0].replicas == expected
    assert read("hyperpod", write_spec(spec.job, "hyperpod"), tmp_path).job == spec.job


@pytest.mark.parametrize(("stated", "processes"), [("auto", None), ("$N", None), ('"8"', 8)])
def test_processes_are_stated_or_those_of_the_command(tmp_path, stated, processes):
    text = TRAINING.replace('"32"', stated)
    assert read("hyperpod", text, tmp_path).job.roles[0].processes == processes
    text = text.replace("--nnodes=4", "--nproc_per_node=2")
    spec = read("hyperpod", text, tmp_path)
    assert spec.job.roles[0].processes == (processes or 2)
    assert read("hyperpod", write_spec(spec.job, "hyperpod"), tmp_path).job == spec.job


def test_ranks_meet_through_the_operator():
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "$MASTER_ADDR:29500")
    words = ("torchrun", "--nnodes", "2", *meeting, "a.py", "--lr", "1")
    text = write_spec(Job(roles=(Role(command=words),)), "hyperpod")
    assert "MASTER_ADDR" not in text
    assert text.count("hyperpodrun") == 1
    assert all(word in text for word in ("--nnodes", "a.py", "--lr"))
    assert "c10d" not in text


def test_options_of_an_address_are_spelled_in_several_ways():
    meeting = ("--rdzv_backend=c10d", "--rdzv_endpoint=$MASTER_ADDR:29500", "--rdzv-id", "7")
    words = ("torchrun", "--nnodes=2", *meeting, "a.py")
    text = write_spec(Job(roles=(Role(command=words),)), "hyperpod")
    assert "MASTER_ADDR" not in text
    assert "c10d" not in text
    assert all(word in text for word in ("hyperpodrun", "--nnodes=2", "--rdzv-id", "a.py"))


def test_a_torchrun_without_an_address_stays(tmp_path):
    job = Job(name="a", roles=(Role(command=("torchrun", "--standalone", "a.py"), entry_words=3),))
    assert read("hyperpod", write_spec(job, "hyperpod"), tmp_path).job == job


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("replicaSpecs:", "other:", "4: spec.replicaSpecs is missing; legal: a list of one"),
        ("replicaSpecs:", "replicaSpecs: {}\n  x:", "8: spec.replicaSpecs is .*; legal: a list"),
        ("replicas: 4", "replicas: four", "10: .*replicas is 'four'; legal: a whole number"),
        ('"32"', '"many"', "5: spec.nprocPerNode is 'many'; legal: a whole number from 1"),
        ('"32"', "0", "5: spec.nprocPerNode is 0; legal: a whole number from 1"),
        ("{minReplicas: 2}", "{minReplicas: x}", "6: .*minReplicas is 'x'; legal: a whole number"),
        ("{minReplicas: 2}", "[2]", "6: spec.elasticPolicy is .*; legal: a mapping"),
    ],
)  # fmt: skip
def test_a_malformed_hyperpod_job_is_refused_at_its_line(tmp_path, before, after, why):
    with pytest.raises(BadInput, match=why):
        read("hyperpod", TRAINING.replace(before, after), tmp_path)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(), "0 roles; a HyperPodPyTorchJob has 1 to 100 roles"),
        (Job(roles=(Role(),), kind=JobKind.SERVING), "runs to its end; the job is of kind serving"),
        (Job(roles=(Role(), Role(least_replicas=1))), "'main' grows; the elastic policy of a"),
        (
            Job(roles=(Role(processes=1), Role(processes=2))),
            "roles start 1 and 2 processes; a HyperPodPyTorchJob has one number",
        ),
        (
            Job(roles=(Role(command=("mpirun", "-H", "$MASTER_ADDR")),)),
            "a command names MASTER_ADDR; ranks of a HyperPodPyTorchJob meet through hyperpodrun",
        ),
    ],
)
def test_a_job_that_no_hyperpod_job_expresses_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "hyperpod")
