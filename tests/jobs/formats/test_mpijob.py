import pytest
from kubernetes_jobs import read

from trnsim.errors import BadInput
from trnsim.jobs.formats import write_spec
from trnsim.jobs.job import Job, Role

TEST = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: bandwidth}
spec:
  slotsPerWorker: 64
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template: {spec: {containers: [{name: run, image: a, command: [mpirun, test]}]}}
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: main, image: a, resources: {limits: {aws.amazon.com/neuron: 16}}}]
"""


def test_an_mpijob_is_read_whole_and_written_back(tmp_path):
    spec = read("mpijob", TEST, tmp_path)
    assert spec.job.roles == (
        Role(name="Launcher", image="a", command=("mpirun", "test"), entry_words=2),
        Role(name="Worker", replicas=2, processes=64, devices=16, image="a"),
    )
    assert spec.line_of("roles.1.processes").line == 5
    assert [kept.name for kept in spec.job.kept_fields] == [
        "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].name"
    ]
    assert read("mpijob", write_spec(spec.job, "mpijob"), tmp_path).job == spec.job


def test_ranks_meet_at_the_first_worker(tmp_path):
    command = ("torchrun", "--rdzv-endpoint", "$MASTER_ADDR:29500", "a.py")
    own = tuple(Role(name=name, command=command, entry_words=4) for name in ("Launcher", "Worker"))
    job = Job(name="a", roles=own)
    text = write_spec(job, "mpijob")
    assert text.count("value: a-worker-0.a\n") == 2
    assert read("mpijob", text, tmp_path).job == job


def test_slots_are_a_number(tmp_path):
    with pytest.raises(BadInput, match=r"5: spec\.slotsPerWorker is 'auto'; legal: a whole number"):
        read("mpijob", TEST.replace("64", "auto"), tmp_path)


def test_a_job_without_a_launcher_is_refused():
    with pytest.raises(BadInput, match="the job has 1 roles; an MPIJob has 2 to 2 roles"):
        write_spec(Job(roles=(Role(),)), "mpijob")
