from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Role

TRAINING = (Path(__file__).parent / "specs" / "nemo.yaml").read_text()
MAIN = """defaults:
  - _self_
  - cluster: bcm
  - training: gpt3/5b
  - fine_tuning: null
  - override hydra/job_logging: stdout
stages:
  - training
cluster_type: bcm
container: nvcr.io/nemo:1
env_vars:
  NCCL_DEBUG: null
  TRANSFORMERS_OFFLINE: 1
debug: False
"""
CLUSTER = """partition: trn1.32xlarge
exclusive: True
gpus_per_node: 8
mem: 0
job_name_prefix: "nemo-"
"""


def spec_of(folder, main=MAIN, cluster=CLUSTER, training=TRAINING):
    for name, text in {"cluster/bcm": cluster, "training/gpt3/5b": training}.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text(text)
    path = folder / "config.yaml"
    path.write_text(main)
    (spec,) = read_specs(path)
    return spec


def test_the_files_that_defaults_name_are_one_job(tmp_path):
    spec = spec_of(tmp_path)
    assert (spec.format, spec.job.name, spec.job.time_limit_s) == (
        "nemo-launcher",
        "nemo-gpt_5b",
        518_400,
    )
    assert spec.job.roles == (
        Role(
            replicas=16,
            instance="trn1.32xlarge",
            is_exclusive=True,
            processes=8,
            gpus=8,
            image="nvcr.io/nemo:1",
            environment=(("TRANSFORMERS_OFFLINE", "1"),),
        ),
    )
    assert spec.job.parallelism.tensor == 2
    lines = {
        "roles.0.image": ("config.yaml", 10),
        "roles.0.environment.TRANSFORMERS_OFFLINE": ("config.yaml", 13),
        "roles.0.instance": ("bcm.yaml", 1),
        "parallelism.sequence": ("5b.yaml", 29),
    }
    found = {path: spec.line_of(path) for path in lines}
    assert {path: (Path(at.file).name, at.line) for path, at in found.items()} == lines
    assert "debug" in [kept.name for kept in spec.job.kept_fields]


def test_what_a_missing_file_states_is_filled_in_later(tmp_path):
    spec = spec_of(tmp_path, cluster="", training="")
    assert [(value.field, value.text, value.place.line) for value in spec.templates] == [
        ("parallelism", "training: gpt3/5b", 4),
        ("roles.0.instance", "cluster: bcm", 3),
    ]
    spec = spec_of(
        tmp_path, MAIN.replace("gpt3/5b", "${size}").replace("bcm\n  - t", "null\n  - t")
    )
    assert [value.text for value in spec.templates] == ["training: ${size}"]


def test_another_stage_trains_nothing(tmp_path):
    spec = spec_of(tmp_path, MAIN.replace("  - training\n", "  - data_preparation\n"))
    assert spec.job.parallelism.stated_fields == {}
    assert spec.job.roles[0].processes is None


@pytest.mark.parametrize(
    ("cluster", "fields"),
    [
        ("mem: 64G\n", {"memory_bytes": 64 << 30, "is_exclusive": False}),
        ("shm_size: 512Gi\nexclusive: false\n", {"shm_bytes": 512 << 30}),
        ("partition: queue\n", {"instance": "", "gpus": None}),
    ],
)
def test_what_a_cluster_states_of_every_job(tmp_path, cluster, fields):
    (own,) = spec_of(tmp_path, cluster=cluster).job.roles
    assert {name: getattr(own, name) for name in fields} == fields


@pytest.mark.parametrize("choice", ["../../secret", "/etc/passwd", "a/../../b", ".hidden", "a b"])
def test_a_choice_outside_of_its_group_is_refused(tmp_path, choice):
    with pytest.raises(BadInput, match=r"config\.yaml:4: .*legal: a file below training/"):
        spec_of(tmp_path, MAIN.replace("gpt3/5b", f'"{choice}"'))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"training": "a: 1\n"}, r"5b\.yaml:1: .*legal: a configuration of a training"),
        ({"training": "trainer: [\n"}, r"5b\.yaml:"),
        ({"cluster": "mem: many\n"}, r"bcm\.yaml:1: mem is 'many'; legal: a size as 64G"),
        ({"cluster": "shm_size: big\n"}, r"bcm\.yaml:1: shm_size is 'big'; legal: a quantity"),
        ({"cluster": "gpus_per_node: x\n"}, r"bcm\.yaml:1: gpus_per_node is 'x'; legal: a whole"),
    ],
)
def test_a_value_that_is_not_legal_is_refused_in_its_file(tmp_path, files, why):
    with pytest.raises(BadInput, match=why):
        spec_of(tmp_path, **files)


def test_it_is_not_written(tmp_path):
    job = spec_of(tmp_path).job
    with pytest.raises(BadInput, match="is read, not written"):
        write_spec(job, "nemo-launcher")


@pytest.mark.parametrize("text", ["defaults: [a]\nstages: []\n", "stages: [training]\n"])
def test_another_document_is_none_of_the_launcher(tmp_path, text):
    with pytest.raises(BadInput, match="no spec of a job"):
        spec_of(tmp_path, text)
