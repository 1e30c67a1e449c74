import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.planned import planned_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

SPECS = Path(__file__).parent / "specs"
BASH = shutil.which("bash")

ROLE = Role(environment=(("A", "1"),), command=("a",))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(roles=(ROLE,), kind=JobKind.SERVING), "a server does not end, and a batch job does"),
        (Job(roles=(ROLE,), kind=JobKind.CLUSTER), "--as parallelcluster writes them"),
        (Job(), "no role"),
        (Job(roles=(replace(ROLE, replicas=None),)), "role main: no number of replicas"),
        (Job(roles=(ROLE, replace(ROLE, environment=()))), "all components share one script"),
        (Job(roles=(replace(ROLE, environment=(("a.b", "1"),)),)), "variable 'a.b'"),
        (Job(roles=(replace(ROLE, command=("-x",)),)), "srun takes it for an option"),
        (Job(roles=(replace(ROLE, vcpus=1.5),)), "vcpus is 1.5: sbatch counts CPUs of a task"),
        (Job(roles=(replace(ROLE, memory_bytes=1000),)), "sbatch takes multiples of 1 KiB"),
        (
            Job(roles=(replace(ROLE, processes=3, command=("torchrun", "--nproc-per-node=2")),)),
            "processes is 3: each task starts 2",
        ),
        (Job(roles=(ROLE,), time_limit_s=0.5), "sbatch takes whole seconds from 1"),
        (Job(roles=(ROLE,), name="a\nb"), "an option is one line of text"),
        (Job(roles=(ROLE,), region="a b"), "region is 'a b'"),
        (Job(roles=(ROLE,), config=(("hidden_size", 8),)), "config is stated beside the command"),
        (
            Job(roles=(ROLE,), parallelism=replace(Job().parallelism, tensor=8)),
            "tensor is stated beside the command: a script has its options alone",
        ),
    ],
)
def test_a_job_that_a_script_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match="sbatch cannot express the job: ") as error:
        write_spec(job, "sbatch")
    assert why in str(error.value)
    assert error.value.fix


def test_what_nodes_have_by_themselves_is_a_comment():
    role = replace(ROLE, efa=16, hugepages_bytes=5 << 20, capabilities=("IPC_LOCK",))
    text = write_spec(Job(roles=(role,), region="us-east-2", model="llama-3.1-8b"), "sbatch")
    assert "# of the cluster: 16 EFA interfaces on each node" in text
    assert "# of the cluster: IPC_LOCK as capabilities on each node" in text
    assert "#SBATCH --comment=region=us-east-2,model=llama-3.1-8b" in text


PLANNED = planned_job(machine("trn2.48xlarge", 2), Layout(tensor=8, data=16, global_batch=64))


def test_a_plans_job_finds_the_address_of_its_head(tmp_path):
    text = write_spec(PLANNED, "sbatch")
    assert 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)' in text
    assert '--rdzv-endpoint "$MASTER_ADDR:29500"' in text
    assert "#SBATCH --ntasks-per-node=1" in text
    path = tmp_path / "a.sbatch"
    path.write_text(text)
    (spec,) = read_specs(path)
    role = replace(PLANNED.roles[0], efa=None, is_memlock_unlimited=False)
    assert spec.job == replace(PLANNED, roles=(role,))


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize("name", ["train.sbatch", "components.sbatch"])
def test_a_written_script_is_one_of_bash(tmp_path, name):
    (spec,) = read_specs(SPECS / name)
    for number, job in enumerate((spec.job, PLANNED)):
        path = tmp_path / f"{number}.sh"
        path.write_text(write_spec(job, "sbatch"), encoding="utf-8")
        answer = subprocess.run([BASH, "-n", path], capture_output=True, check=False)
        assert answer.returncode == 0, answer.stderr
