import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.parallelism import Parallelism
from trnsim.jobs.planned import planned_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

SPECS = Path(__file__).parent / "specs"
CHECKER = Path(__file__).resolve().parents[3] / ".venv-specs" / "bin" / "python"
JOB = Job(roles=(Role(processes=64),), parallelism=Parallelism(tensor=8))
PLANNED = planned_job(
    machine("trn2.48xlarge", 2), Layout(tensor=8, data=16, global_batch=64), model="llama-3.1-8b"
)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(JOB, kind=JobKind.SERVING), "kind is serving: it configures a training"),
        (replace(JOB, roles=()), "0 roles: all nodes run the same program"),
        (replace(JOB, copies=2), "2 copies"),
        (replace(JOB, config=(("rope_theta", 1),)), "rope_theta: no key states it"),
        (replace(JOB, config=(("model_type", "gpt2"),)), "model_type gpt2; legal|legal: llama"),
        (replace(JOB, roles=(Role(processes=0),)), "no rank"),
        (replace(JOB, parallelism=Parallelism(tensor=8, data=2)), "data: no key states it"),
        (replace(JOB, parallelism=Parallelism(tensor=8, dtype="fp8")), "dtype fp8"),
        (replace(JOB, time_limit_s=0.5), "time"),
    ],
)
@pytest.mark.parametrize("name", ["nxdt", "nemo"])
def test_a_job_that_a_configuration_cannot_express_is_refused(name, job, why):
    with pytest.raises(BadInput, match=rf"{name} cannot express the job: .*({why})"):
        write_spec(job, name)


def test_what_only_one_of_them_states():
    limited = replace(JOB, time_limit_s=60.0)
    assert "# started with a limit of 00:01:00" in write_spec(limited, "nxdt")
    assert "time_limit: 00:01:00" in write_spec(limited, "nemo")
    with pytest.raises(BadInput, match="zero 2: it has ZeRO-1 or none"):
        write_spec(replace(JOB, parallelism=Parallelism(zero=2)), "nxdt")
    with pytest.raises(BadInput, match="logical_cores: no key states it"):
        write_spec(replace(JOB, parallelism=Parallelism(tensor=1, logical_cores=2)), "nemo")
    with pytest.raises(BadInput, match="no layout: tensor_model_parallel_size or micro_batch_size"):
        write_spec(Job(roles=(Role(),)), "nemo")


@pytest.mark.parametrize("name", ["nxdt", "nemo"])
def test_a_plans_layout_is_written_and_its_start_is_a_comment(tmp_path, name):
    text = write_spec(PLANNED, name)
    assert "# started with instance trn2.48xlarge\n" in text
    assert "# started with FI_PROVIDER=efa\n" in text
    assert "# started with command torchrun --nproc-per-node 64" in text
    assert ("# started with model llama-3.1-8b" in text) is (name == "nemo")
    path = tmp_path / "a.yaml"
    path.write_text(text)
    (spec,) = read_specs(path)
    role = spec.job.roles[0]
    assert (spec.format, role.replicas, role.processes) == (name, 2, 64)
    stated = spec.job.parallelism
    assert (stated.tensor, stated.global_batch, stated.zero, stated.dtype) == (8, 64, 1, "bf16")


def test_a_kept_field_stays_where_it_would_be_written(tmp_path):
    keys = ("trainer", "num_nodes")
    job = replace(JOB, kept_fields=(KeptField(keys, "${nodes}"), KeptField(("nodes",), 1)))
    path = tmp_path / "a.yaml"
    path.write_text(write_spec(job, "nxdt"))
    assert "num_nodes: ${nodes}" in path.read_text()
    (spec,) = read_specs(path)
    assert spec.job.roles == JOB.roles


CHECK = """
import json, sys
from omegaconf import OmegaConf
for text in json.load(sys.stdin):
    config = OmegaConf.create(text)
    print(config.trainer.num_nodes, config.trainer.devices, config.model.encoder_seq_length)
"""


@pytest.mark.slow
@pytest.mark.skipif(not CHECKER.exists(), reason="no .venv-specs: make .venv-specs/.made")
def test_omegaconf_reads_what_is_written():
    texts = [write_spec(PLANNED, "nxdt"), write_spec(PLANNED, "nemo")]
    for name in ("nxdt", "nemo"):
        (spec,) = read_specs(SPECS / f"{name}.yaml")
        texts.append(write_spec(spec.job, name))
    answer = subprocess.run(
        [CHECKER, "-c", CHECK], input=json.dumps(texts), text=True, capture_output=True, check=False
    )
    assert answer.stdout.splitlines() == ["2 64 4096", "2 64 4096", "4 64 4096", "16 8 2048"]
