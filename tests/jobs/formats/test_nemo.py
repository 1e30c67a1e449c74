from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.parallelism import Parallelism

SPECS = Path(__file__).parent / "specs"
TEXT = (SPECS / "nemo.yaml").read_text()


def spec_of(folder, text):
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    (spec,) = read_specs(path)
    return spec


def test_a_configuration_is_a_job():
    (spec,) = read_specs(SPECS / "nemo.yaml")
    job = spec.job
    assert (spec.format, job.name, job.time_limit_s) == ("nemo", "gpt_5b", 518_400)
    assert job.roles == (Role(replicas=16, processes=8),)
    assert job.parallelism == Parallelism(
        tensor=2,
        pipeline=1,
        zero=1,
        is_sequence=False,
        recompute="full",
        micro_batch=4,
        global_batch=2048,
        sequence=1024,
        steps=75_000,
        dtype="bf16",
        optimizer="adamw",
    )
    assert dict(job.config) == {
        "hidden_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
    }


def test_fields_have_lines_and_the_rest_is_kept():
    (spec,) = read_specs(SPECS / "nemo.yaml")
    lines = {"name": 2, "time_limit_s": 3, "parallelism.sequence": 29, "parallelism.zero": 27}
    assert {path: spec.line_of(path).line for path in lines} == lines
    assert [value.field for value in spec.templates] == ["config.intermediate_size"]
    kept = {kept.name: kept.value for kept in spec.job.kept_fields}
    assert kept["model.encoder_seq_length"] == 2048
    assert kept["model.ffn_hidden_size"] == "${multiply:4, ${.hidden_size}}"


def test_a_written_configuration_is_the_same_job(tmp_path):
    (spec,) = read_specs(SPECS / "nemo.yaml")
    assert spec_of(tmp_path, write_spec(spec.job, "nemo")).job == spec.job


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("distributed_fused_adam", "fused_adam", {"optimizer": "adamw", "zero": 0}),
        ("distributed_fused_adam", "adamw", {"optimizer": "adamw", "zero": None}),
        ("distributed_fused_adam", "other", {"optimizer": None, "zero": None}),
        ("precision: bf16", "precision: 16", {"dtype": "fp16"}),
        ("precision: bf16", 'precision: "32"', {"dtype": "fp32"}),
        ("precision: bf16", "precision: bf16-mixed", {"dtype": "bf16"}),
    ],
)
def test_names_and_their_meaning(tmp_path, old, new, fields):
    spec = spec_of(tmp_path, TEXT.replace(old, new))
    assert {name: getattr(spec.job.parallelism, name) for name in fields} == fields
    assert spec_of(tmp_path, write_spec(spec.job, "nemo")).job == spec.job


def test_a_time_limit_that_is_not_legal_is_refused_at_its_line(tmp_path):
    with pytest.raises(BadInput, match=r"a\.yaml:3: run.time_limit is 'soon'; legal: a time of"):
        spec_of(tmp_path, TEXT.replace('"6-00:00:00"', "soon"))


@pytest.mark.parametrize(
    "text", ["trainer: {devices: 1}\nmodel: {a: 1}\n", "trainer: {}\nmodel: x\n", "model: {}\n"]
)
def test_another_document_is_none_of_nemo(tmp_path, text):
    with pytest.raises(BadInput, match="no spec of a job"):
        spec_of(tmp_path, text)


COUNT = st.none() | st.integers(1, 3) | st.integers(1, 10**9)


@st.composite
def jobs(draw):
    names = ("pipeline", "virtual", "context", "expert", "micro_batch", "global_batch")
    names += ("sequence", "steps", "checkpoint_steps")
    optimizer, zero = draw(
        st.sampled_from([(None, None), ("adamw", 1), ("adamw", 0), ("adamw", None)])
    )
    layout = Parallelism(
        **{name: draw(COUNT) for name in names},
        tensor=draw(st.integers(1, 64)),
        zero=zero,
        is_sequence=draw(st.none() | st.booleans()),
        recompute=draw(st.sampled_from([None, "none", "selective", "full"])),
        dtype=draw(st.sampled_from([None, "bf16", "fp16", "fp32"])),
        optimizer=optimizer,
    )
    kept = [
        KeptField(("exp_manager", "name"), "x"),
        KeptField(("model", "data", "data_prefix", 0), 1.0),
        KeptField(("run", "dependency"), "singleton"),
    ]
    return Job(
        name=draw(st.sampled_from(["", "a", "a: b", "5"])),
        roles=(Role(replicas=draw(COUNT), processes=draw(COUNT)),),
        time_limit_s=draw(st.none() | st.integers(1, 10**7).map(float)),
        config=draw(st.sampled_from([(), (("hidden_size", 8),), (("num_local_experts", 2),)])),
        parallelism=layout,
        kept_fields=tuple(draw(st.lists(st.sampled_from(kept), unique=True).map(sorted))),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("configs")


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_a_written_job_is_read_as_it_was(folder, job):
    assert spec_of(folder, write_spec(job, "nemo")).job == job


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_200_written_jobs_are_read_as_they_were(folder, job):
    assert spec_of(folder, write_spec(job, "nemo")).job == job
