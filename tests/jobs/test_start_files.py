import subprocess

import pytest
import yaml

from trnsim.errors import BadInput
from trnsim.jobs.formats import FORMATS, read_specs
from trnsim.jobs.plans import parallelism_of
from trnsim.jobs.start_files import KINDS, check_kind, start_file
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

LAYOUT = Layout(
    tensor=8, pipeline=4, virtual=2, data=8, is_sequence=True, global_batch=256, sequence=4096
)
WHOLE = ("sbatch", "batch", "sagemaker-training", "job", "jobset", "pytorchjob", "hyperpod", "k8s")


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_a_spec_has_every_size_of_the_layout(kind, on, tmp_path):
    where = machine(on, 4)
    path = tmp_path / "start"
    path.write_text(start_file(kind, where, LAYOUT, model="m"))
    (spec,) = read_specs(path)
    assert parallelism_of(spec.job).stated_fields == {
        "tensor": 8,
        "pipeline": 4,
        "virtual": 2,
        "context": 1,
        "expert": 1,
        "zero": 1,
        "is_sequence": True,
        "recompute": "selective",
        "micro_batch": 1,
        "global_batch": 256,
        "sequence": 4096,
        "dtype": "bf16",
        "optimizer": "adamw",
    }
    (role,) = spec.job.roles
    assert (role.replicas, role.instance) == (4, where.instance.name)
    assert spec.job.model == "m"


@pytest.mark.parametrize("kind", ["torchrun", "sbatch"])
@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_a_script_is_one_that_a_shell_reads(kind, on, tmp_path):
    script = tmp_path / "start.sh"
    script.write_text(start_file(kind, machine(on, 2), LAYOUT))
    subprocess.run(["bash", "-n", str(script)], check=True)  # noqa: S607  the user's own shell


def started(tmp_path, text, **environment):
    """The words that a script starts `torchrun` with, which is replaced by a program of ours."""
    script = tmp_path / "start.sh"
    script.write_text(text)
    (tmp_path / "torchrun").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    (tmp_path / "torchrun").chmod(0o755)
    return subprocess.run(
        ["sh", str(script)],  # noqa: S607  the user's own shell
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **environment},
    )


def test_a_script_starts_what_it_says(tmp_path):
    text = start_file("torchrun", machine("trn2", 2), LAYOUT, ("--note", "two words", "--path=$X"))
    words = started(tmp_path, text, MASTER_ADDR="ten").stdout.splitlines()
    assert words[words.index("--rdzv-endpoint") + 1] == "ten:29500"
    assert words[words.index("--nnodes") + 1] == "2"
    assert words[words.index("train.py") + 1] == "--tensor-model-parallel-size"
    assert words[-3:] == ["--note", "two words", "--path=$X"]
    without = started(tmp_path, text)
    assert without.returncode
    assert "MASTER_ADDR: address of the first instance, for port 29500" in without.stderr


def test_one_instance_needs_no_head_and_no_network(tmp_path):
    text = start_file("torchrun", machine("trn2"), Layout(tensor=8, data=8))
    assert "--standalone" in started(tmp_path, text).stdout
    assert "efa" not in start_file("job", machine("trn2"), Layout(tensor=8, data=8)).lower()


def test_a_job_asks_for_the_devices_of_its_instances():
    limits = []
    for on in ("trn2", "p5en"):
        job, service = yaml.safe_load_all(start_file("k8s", machine(on, 2), LAYOUT))
        pod = job["spec"]["template"]["spec"]
        limits.append(pod["containers"][0]["resources"]["limits"])
        assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
        assert pod["subdomain"] == service["metadata"]["name"]
    assert limits[0] == {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 16}
    assert limits[1]["nvidia.com/gpu"] == 8


def test_another_kind_lists_the_legal_ones():
    with pytest.raises(
        BadInput, match="--emit is 'docker'; legal: torchrun, sbatch, sagemaker-tra"
    ):
        start_file("docker", machine("trn2"), Layout())
    for kind in ("plan", "parallelcluster", "sagemaker-endpoint"):
        with pytest.raises(BadInput, match=f"--emit is '{kind}'; legal: "):
            check_kind(kind)
    assert set(KINDS) <= {"torchrun", *FORMATS}
