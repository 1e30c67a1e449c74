import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, JobKind, Role

TRAINING = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pretrain}
spec:
  nprocPerNode: "32"
  elasticPolicy: {rdzvBackend: c10d, minReplicas: 2, maxReplicas: 8}
  runPolicy: {activeDeadlineSeconds: 3600, cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {node.kubernetes.io/instance-type: trn1.32xlarge}
          containers:
            - name: pytorch
              image: me
              command: [torchrun, train.py]
              resources: {limits: {aws.amazon.com/neuron: 16, vpc.amazonaws.com/efa: 8}}
    Master:
      template:
        spec:
          containers: [{name: main, image: me}]
"""


def test_a_pytorchjob_is_read_whole_with_its_master_first_and_written_back(tmp_path):
    spec = read("pytorchjob", TRAINING, tmp_path)
    assert spec.job.roles == (
        Role(name="Master", processes=32, image="me"),
        Role(
            name="Worker",
            replicas=4,
            least_replicas=2,
            instance="trn1.32xlarge",
            processes=32,
            devices=16,
            efa=8,
            image="me",
            command=("torchrun", "train.py"),
            entry_words=2,
        ),
    )
    assert (spec.job.name, spec.job.time_limit_s) == ("pretrain", 3600)
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.elasticPolicy.maxReplicas",
        "spec.elasticPolicy.rdzvBackend",
        "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].name",
        "spec.pytorchReplicaSpecs.Worker.restartPolicy",
        "spec.runPolicy.cleanPodPolicy",
    ]
    lines = {
        "roles.0": 20,
        "roles.1": 9,
        "roles.1.replicas": 10,
        "roles.1.least_replicas": 6,
        "roles.1.processes": 5,
        "roles.1.efa": 19,
        "time_limit_s": 7,
    }
    assert {name: spec.line_of(name).line for name in lines} == lines
    assert read("pytorchjob", write_spec(spec.job, "pytorchjob"), tmp_path).job == spec.job


@pytest.mark.parametrize(("stated", "processes"), [("auto", None), ("$N", None), ('"8"', 8)])
def test_processes_are_stated_or_those_of_the_command(tmp_path, stated, processes):
    text = TRAINING.replace('"32"', stated)
    spec = read("pytorchjob", text, tmp_path)
    assert spec.job.roles[1].processes == processes
    assert read("pytorchjob", write_spec(spec.job, "pytorchjob"), tmp_path).job == spec.job
    text = TRAINING.replace('  nprocPerNode: "32"\n', "").replace(
        "[torchrun,", "[torchrun, --nproc_per_node=2,"
    )
    spec = read("pytorchjob", text, tmp_path)
    assert [role.processes for role in spec.job.roles] == [None, 2]
    assert read("pytorchjob", write_spec(spec.job, "pytorchjob"), tmp_path).job == spec.job


@pytest.mark.parametrize(
    ("roles", "address"), [(("Worker",), "value: pre-train-worker-0"), (("Master", "Worker"), "")]
)
def test_ranks_meet_at_the_first_pod(tmp_path, roles, address):
    command = ("torchrun", "--rdzv-endpoint", "$MASTER_ADDR:29500", "a.py")
    own = tuple(Role(name=name, command=command, entry_words=4) for name in roles)
    job = Job(name="pre-train", roles=own)
    text = write_spec(job, "pytorchjob")
    assert text.count("$(MASTER_ADDR):29500") == len(roles)
    assert address in text
    assert ("name: MASTER_ADDR" in text) is bool(address)
    assert read("pytorchjob", text, tmp_path).job == job


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("pytorchReplicaSpecs:", "other:", "4: spec.pytorchReplicaSpecs is missing; legal"),
        ("Master:", "Chief:", "8: spec.pytorchReplicaSpecs is a mapping; legal: a"),
        ("replicas: 4", "replicas: four", "10: .*replicas is 'four'; legal: a whole number"),
        ('"32"', '"many"', "5: spec.nprocPerNode is 'many'; legal: a whole number from 1"),
        ('"32"', "0", "5: spec.nprocPerNode is 0; legal: a whole number from 1"),
        ("minReplicas: 2", "minReplicas: x", "6: .*minReplicas is 'x'; legal: a whole number"),
        ("runPolicy: {", "runPolicy: [{", "7: spec.runPolicy is .*; legal: a mapping"),
    ],
)  # fmt: skip
def test_a_malformed_pytorchjob_is_refused_at_its_line(tmp_path, before, after, why):
    text = TRAINING.replace(before, after)
    with pytest.raises(BadInput, match=why):
        read("pytorchjob", text.replace("None}", "None}]") if "[{" in after else text, tmp_path)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(roles=(Role(), Role(), Role())), "3 roles; a PyTorchJob has 1 to 2 roles"),
        (Job(roles=(Role(),), kind=JobKind.CLUSTER), "runs to its end; the job is of kind cluster"),
        (Job(roles=(Role(replicas=2), Role())), "2 replicas; the Master of a PyTorchJob is one"),
        (Job(roles=(Role(least_replicas=1), Role())), "from 1 replica; it is one"),
        (
            Job(roles=(Role(processes=1), Role(processes=2))),
            "roles start 1 and 2 processes; a PyTorchJob has one number",
        ),
    ],
)
def test_a_job_that_no_pytorchjob_expresses_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "pytorchjob")
