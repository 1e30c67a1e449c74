from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.parallelism import Parallelism
from trnsim.jobs.rules import findings

SPECS = Path(__file__).parent / "specs"
TEXT = (SPECS / "nxdt.yaml").read_text()


def spec_of(folder, text):
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    (spec,) = read_specs(path)
    return spec


def test_a_configuration_is_a_job():
    (spec,) = read_specs(SPECS / "nxdt.yaml")
    job = spec.job
    assert (spec.format, job.name) == ("nxdt", "pretrain")
    assert job.roles == (Role(replicas=4, processes=64),)
    assert job.parallelism == Parallelism(
        tensor=8,
        pipeline=4,
        zero=1,
        is_sequence=True,
        recompute="none",
        micro_batch=1,
        sequence=4096,
        steps=1000,
        checkpoint_steps=100,
        logical_cores=2,
        dtype="bf16",
        optimizer="adamw",
    )
    assert dict(job.config) == {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 14336,
        "max_position_embeddings": 4096,
        "num_key_value_heads": 8,
    }


def test_fields_have_lines_and_templates_and_the_rest_is_kept():
    (spec,) = read_specs(SPECS / "nxdt.yaml")
    lines = {
        "name": 1,
        "roles.0.processes": 4,
        "roles.0.replicas": 5,
        "parallelism.logical_cores": 6,
        "parallelism.tensor": 17,
        "parallelism.zero": 20,
        "parallelism.sequence": 28,
        "parallelism.dtype": 43,
        "config.num_attention_heads": 33,
        "config.max_position_embeddings": 29,
    }
    assert {path: spec.line_of(path).line for path in lines} == lines
    assert [(value.field, value.text) for value in spec.templates] == [
        ("parallelism.global_batch", "${oc.env:BATCH}")
    ]
    kept = {kept.name: kept.value for kept in spec.job.kept_fields}
    assert kept["trainer.num_nodes"] == "${cluster.nodes}"
    assert kept["model.optim.name"] == "adamw_fp32OptState"
    assert kept["data.train_dir"] == "/data/train"
    assert "model.normalization" not in kept
    assert kept["trainer.max_epochs"] == -1


def test_a_written_configuration_is_the_same_job(tmp_path):
    (spec,) = read_specs(SPECS / "nxdt.yaml")
    assert spec_of(tmp_path, write_spec(spec.job, "nxdt")).job == spec.job


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("seq_length: ${model.encoder_seq_length}", "seq_length: 512", {"sequence": 512}),
        ("zero1: True", "zero1: False", {"zero": 0}),
        ("type: mixed_precision", "type: bf16SR", {"dtype": "bf16"}),
        ("type: mixed_precision", "type: manual", {"dtype": None}),
        ("granularity: null", "granularity: selective", {"recompute": "selective"}),
        ("max_steps: 1000", "max_steps: -1", {"steps": None}),
        ("  activations_checkpoint_granularity: null\n", "", {"recompute": None}),
    ],
)
def test_values_and_their_meaning(tmp_path, old, new, fields):
    spec = spec_of(tmp_path, TEXT.replace(old, new))
    assert {name: getattr(spec.job.parallelism, name) for name in fields} == fields
    assert spec_of(tmp_path, write_spec(spec.job, "nxdt")).job == spec.job


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("devices: 64", "devices: all", "4: trainer.devices is 'all'; legal: a whole number from"),
        ("devices: 64", "devices: [1]", "4: trainer.devices is .*; legal: text"),
        ("zero1: True", "zero1: maybe", "20: distributed_strategy.zero1 is 'maybe'; legal: true"),
        ("num_layers: 32", "num_layers: 9999999999999999", "30: model.num_layers is .*; legal"),
        ("name: pretrain", "name: {}", "1: name is .*; legal: text"),
    ],
)
def test_a_value_that_is_not_legal_is_refused_at_its_line(tmp_path, old, new, why):
    with pytest.raises(BadInput, match=rf"a\.yaml:{why}"):
        spec_of(tmp_path, TEXT.replace(old, new))


@pytest.mark.parametrize(
    "text", ["trainer: {devices: 1}\n", "trainer: 1\ndistributed_strategy: 2\n", "- trainer\n"]
)
def test_another_document_is_none_of_nxd_training(tmp_path, text):
    with pytest.raises(BadInput, match="no spec of a job"):
        spec_of(tmp_path, text)


COUNT = st.none() | st.integers(1, 3) | st.integers(1, 10**9)
TRUTH = st.none() | st.booleans()
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


@st.composite
def configs(draw):
    sizes = draw(st.lists(st.sampled_from(SIZES), unique=True))
    ordered = [name for name in SIZES if name in sizes]
    is_typed = ordered and draw(st.booleans())
    values = [(name, draw(st.integers(1, 10**6))) for name in ordered]
    return ((("model_type", "llama"),) if is_typed else ()) + tuple(values)


@st.composite
def jobs(draw):
    names = ("tensor", "pipeline", "virtual", "context", "expert", "micro_batch", "global_batch")
    names += ("sequence", "steps", "checkpoint_steps", "logical_cores")
    layout = Parallelism(
        **{name: draw(COUNT) for name in names},
        zero=draw(st.sampled_from([None, 0, 1])),
        is_sequence=draw(TRUTH),
        recompute=draw(st.sampled_from([None, "none", "selective", "full"])),
        dtype=draw(st.sampled_from([None, "bf16", "fp32"])),
        optimizer=draw(st.sampled_from([None, "adamw"])),
    )
    kept = [
        KeptField(("data", "train_dir"), "/a"),
        KeptField(("exp_manager", "name"), "x"),
        KeptField(("model", "optim", "betas", 0), 0.9),
    ]
    return Job(
        name=draw(st.sampled_from(["", "a", "a: b", "5", "true", "null", "- x"])),
        roles=(Role(replicas=draw(COUNT), processes=draw(COUNT)),),
        model=draw(st.sampled_from(["", "/a/config.json"])),
        config=draw(configs()),
        parallelism=layout,
        kept_fields=tuple(draw(st.lists(st.sampled_from(kept), unique=True).map(sorted))),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("configs")


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_a_written_job_is_read_as_it_was(folder, job):
    assert spec_of(folder, write_spec(job, "nxdt")).job == job


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_200_written_jobs_are_read_as_they_were(folder, job):
    assert spec_of(folder, write_spec(job, "nxdt")).job == job


def test_a_model_of_llamas_kind_is_known_by_its_fields(tmp_path):
    spec = spec_of(tmp_path, TEXT.replace("normalization: rmsnorm", "normalization: layernorm"))
    assert "model_type" not in dict(spec.job.config)
    spec = spec_of(tmp_path, TEXT.replace("num_kv_heads: 8", "num_kv_heads: 8\n  moe: {top_k: 2}"))
    assert dict(spec.job.config)["model_type"] == "llama"
    text = TEXT.replace("num_kv_heads: 8", "num_kv_heads: 8\n  moe: {num_experts: 8, top_k: 2}")
    spec = spec_of(tmp_path, text)
    assert dict(spec.job.config)["model_type"] == "mixtral"
    assert replace(spec.job, kept_fields=()) != spec.job


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("  tensor_model_paralel_size: 8", "tensor_model_parallel_size"),
        ("  zero_1: true", "zero1"),
        ("  colour: red", ""),
    ],
)
def test_a_key_that_is_almost_one_that_is_read_is_a_finding(tmp_path, line, near):
    path = tmp_path / "a.yaml"
    path.write_text(f"trainer:\n  num_nodes: 1\n  devices: 8\ndistributed_strategy:\n{line}\n")
    (spec,) = read_specs(path)
    found = [row for row in findings(spec) if row.rule == "ignored-field"]
    assert [row.place.line for row in found] == [5] * bool(near)
    assert all(f"perhaps {near};" in row.fix for row in found)


def test_a_number_that_is_a_word_is_refused_at_its_line(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("trainer:\n  num_nodes: 0\ndistributed_strategy: {}\n")
    with pytest.raises(BadInput, match=r"a.yaml:2: trainer.num_nodes is 0; legal: .* from 1 on"):
        read_specs(path)
    path.write_text("trainer:\n  num_nodes: two\ndistributed_strategy: {}\n")
    with pytest.raises(BadInput, match=r"a.yaml:2: trainer.num_nodes is 'two'"):
        read_specs(path)
