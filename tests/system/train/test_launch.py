import re
import subprocess

import pytest

from trnsim.errors import BadInput
from trnsim.place.machine import machine
from trnsim.system.train.launch import KINDS, text
from trnsim.system.train.layout import Layout

LAYOUT = Layout(
    tensor=8, pipeline=4, virtual=2, data=8, is_sequence=True, global_batch=256, sequence=4096
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_every_size_of_the_layout(kind):
    made = text(kind, machine("trn2", 4), LAYOUT)
    for option, value in {
        "tensor-model-parallel-size": 8,
        "pipeline-model-parallel-size": 4,
        "virtual-pipeline-model-parallel-size": 2,
        "micro-batch-size": 1,
        "global-batch-size": 256,
        "seq-length": 4096,
        "recompute-granularity": "selective",
        "zero-stage": 1,
        "nproc-per-node": 64,
        "nnodes": 4,
    }.items():
        assert re.search(rf"--{option} {value}\b", made), option
    assert "--sequence-parallel" in made
    assert "4 x trn2.48xlarge" in made


@pytest.mark.parametrize("kind", ["torchrun", "sbatch"])
@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_a_script_is_one_that_a_shell_reads(kind, on, tmp_path):
    script = tmp_path / "start.sh"
    script.write_text(text(kind, machine(on, 2), LAYOUT))
    subprocess.run(["bash", "-n", str(script)], check=True)  # noqa: S607  the user's own shell


def test_a_script_starts_what_it_says(tmp_path):
    """`torchrun` is replaced by what writes its arguments down."""
    script = tmp_path / "start.sh"
    script.write_text(text("torchrun", machine("trn2", 2), LAYOUT))
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NODE_RANK": "1", "HEAD": "ten"}
    ran = subprocess.run(
        ["sh", str(script)],  # noqa: S607  the user's own shell
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    words = ran.stdout.split()
    assert words[words.index("--node-rank") + 1] == "1"
    assert words[words.index("--master-addr") + 1] == "ten"
    assert words[words.index("train.py") + 1] == "--tensor-model-parallel-size"


def test_a_job_asks_for_the_devices_of_its_instances():
    neuron, gpu = (text("k8s", machine(on, 2), LAYOUT) for on in ("trn2", "p5en"))
    assert "aws.amazon.com/neuron: 16\n              vpc.amazonaws.com/efa: 16" in neuron
    assert "nvidia.com/gpu: 8" in gpu
    assert "NEURON_LOGICAL_NC_CONFIG" in neuron
    assert "NEURON" not in gpu
    assert "completions: 2\n  parallelism: 2\n  completionMode: Indexed" in gpu


def test_an_instance_alone_needs_no_network():
    assert "efa" not in text("k8s", machine("trn2"), Layout(tensor=8, data=8)).lower()


def test_another_kind_lists_the_legal_ones():
    with pytest.raises(BadInput, match="--emit docker; legal: torchrun, sbatch, k8s"):
        text("docker", machine("trn2"), Layout())


@pytest.mark.parametrize("kind", KINDS)
def test_further_words_end_the_command(kind):
    made = text(kind, machine("trn2", 1), LAYOUT, ("--seed 3", "--log-interval 1"))
    assert re.search(r"--bf16 \\\n\s+--seed 3 \\\n\s+--log-interval 1\b", made)
