import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cases import (
    HOSTS,
    MODELS,
    check_round_trip,
    demanded,
    from_moto,
    needs_moto,
    problems,
    read,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, KeptField, Role

SPECS = Path(__file__).parent / "specs"
API = ("sagemaker", "CreateEndpointConfig")
MOTO = ("create_endpoint_config", "describe_endpoint_config", "")
ARGUMENTS = {"EndpointConfigName": "EndpointConfigName"}
NAME = "sagemaker-endpoint"
ALONE = Role(is_exclusive=True)
SERVING = JobKind.SERVING


def of(*variants):
    """The text of a configuration."""
    return json.dumps({"EndpointConfigName": "a", "ProductionVariants": variants}, indent=1)


@pytest.fixture(scope="module")
def chat():
    (spec,) = read_specs(SPECS / "sagemaker_endpoint.json")
    return spec


def test_a_configuration_is_read_whole(chat):
    assert chat.job.name == "chat"
    assert chat.job.kind is SERVING
    assert chat.job.roles == (
        replace(ALONE, instance="inf2.48xlarge", replicas=2),
        replace(ALONE, name="growing", instance="trn1.32xlarge", replicas=5, least_replicas=1),
        replace(ALONE, name="small", replicas=None),
    )
    lines = {
        "roles.0.name": 5,
        "roles.0.instance": 7,
        "roles.0.replicas": 8,
        "roles.1.replicas": 19,
        "roles.1.least_replicas": 18,
        "roles.2.name": 23,
    }
    assert {path: chat.line_of(path).line for path in lines} == lines


def test_a_written_configuration_is_the_one_that_was_read(chat):
    text = write_spec(chat.job, NAME)
    assert same(read(text, NAME).job, chat.job)
    assert json.loads(text) == json.loads((SPECS / "sagemaker_endpoint.json").read_text())
    assert problems(json.loads(text), *API) == []


def test_scaling_without_a_least_number_is_kept():
    scaling = {"Status": "ENABLED", "MaxInstanceCount": 5}
    spec = read(of({"VariantName": "a", "ManagedInstanceScaling": scaling}), NAME)
    assert spec.job.roles[0].replicas is None
    assert len(spec.job.kept_fields) == 2
    assert same(read(write_spec(spec.job, NAME), NAME).job, spec.job)


def test_a_stack_is_read_through(tmp_path):
    path = tmp_path / "stack.yaml"
    path.write_text(
        "Resources:\n  Endpoint:\n    Type: AWS::SageMaker::EndpointConfig\n    Properties:\n"
        "      ProductionVariants:\n      - VariantName: a\n        ModelName: !Ref Model\n"
        "        InstanceType: ml.inf2.xlarge\n        InitialInstanceCount: !Ref Count\n"
    )
    (spec,) = read_specs(path)
    assert spec.job.name == "Endpoint"
    assert spec.job.roles == (replace(ALONE, name="a", instance="inf2.xlarge", replicas=None),)
    assert [(value.field, value.text) for value in spec.templates] == [
        ("roles.0.replicas", "${Count}")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (of(), r"3: ProductionVariants is \[\]: an endpoint needs a variant"),
        (of(1), r"4: ProductionVariants\[0\] is 1; legal: a mapping"),
        (of({"InstanceType": "inf2.xlarge"}), "5: .*; legal: a type of SageMaker, which begins"),
        (of({"InitialInstanceCount": 0}), "5: .*; legal: a whole number from 1 on"),
        (of({"VariantName": {}}), "5: .*; legal: text"),
    ],
)
def test_malformed_values_are_refused_at_their_lines(text, why):
    with pytest.raises(BadInput, match=f"^spec.json:{why}"):
        read(text, NAME)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(name="a", roles=(ALONE,)), "a training job is no endpoint"),
        (Job(name="a", kind=SERVING), "an endpoint needs a role"),
        (Job(name="a.b", kind=SERVING, roles=(ALONE,)), "name is 'a.b'; legal for SageMaker"),
        (Job(name="a", kind=SERVING, roles=(replace(ALONE, name="b_c"),)), "name is 'b_c'"),
        (Job(name="a", kind=SERVING, roles=(Role(),)), "shares its instance"),
        (Job(name="a", kind=SERVING, roles=(replace(ALONE, image="i"),)), "CreateModel states it"),
        (Job(name="a", kind=SERVING, roles=(replace(ALONE, command=("i",)),)), "CreateModel"),
        (Job(name="a", kind=SERVING, roles=(replace(ALONE, gpus=1),)), "gpus is 1; a container"),
    ],
)
def test_a_job_that_an_endpoint_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, NAME)


@st.composite
def variants(draw):
    replicas = draw(st.none() | st.integers(1, 100))
    least = draw(st.none() | st.integers(0, 100))
    kind = draw(st.sampled_from(["inf2.48xlarge", "trn1.32xlarge", "inf1.xlarge", "g5.xlarge"]))
    name = draw(HOSTS)
    return replace(ALONE, name=name, instance=kind, replicas=replicas, least_replicas=least)


JOBS = st.builds(
    Job,
    name=HOSTS,
    kind=st.just(SERVING),
    roles=st.lists(variants(), min_size=1, max_size=10).map(tuple),
    model=MODELS,
    kept_fields=st.sampled_from([(), (KeptField(("KmsKeyId",), "key"),)]),
)


@settings(max_examples=4)
@given(JOBS)
def test_written_jobs_are_read_back(job):
    check_round_trip(job, NAME, API)


@pytest.mark.slow
@settings(max_examples=200)
@given(JOBS)
def test_many_written_jobs_are_read_back(job):
    check_round_trip(job, NAME, API)


@needs_moto
@pytest.mark.slow
@settings(max_examples=1)
@given(st.lists(JOBS, min_size=20, max_size=20))
def test_moto_describes_what_it_took(jobs):
    # Moto's list of instances ends with inf1.
    jobs = [demanded(replace(job, model=""), instance="inf1.xlarge", replicas=2) for job in jobs]
    jobs = [replace(job, name=f"a{index}") for index, job in enumerate(jobs)]
    assert from_moto(jobs, NAME, ("sagemaker", *MOTO), ARGUMENTS) == jobs


def test_the_words_of_a_legal_name_are_english():
    with pytest.raises(BadInput, match=r"1 to 63 letters, digits and -, no - at an end"):
        write_spec(Job(name="-a", kind=JobKind.SERVING, roles=(Role(),)), "sagemaker-endpoint")
