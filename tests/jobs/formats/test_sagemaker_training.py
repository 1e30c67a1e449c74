import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cases import (
    HOSTS,
    MODELS,
    UNIQUE_VARIABLES,
    WORDS,
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
from trnsim.jobs.planned import planned_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

SPECS = Path(__file__).parent / "specs"
API = ("sagemaker", "CreateTrainingJob")
MOTO = ("create_training_job", "describe_training_job", "")
ARGUMENTS = {"TrainingJobName": "TrainingJobName"}
ALONE = Role(is_exclusive=True)
NAME = "sagemaker-training"


def of(**fields):
    """The text of a training job."""
    return json.dumps({"TrainingJobName": "a", "ResourceConfig": {}} | fields, indent=1)


@pytest.fixture(scope="module")
def pretrain():
    (spec,) = read_specs(SPECS / "sagemaker_training.json")
    return spec


def test_a_job_is_read_whole(pretrain):
    words = ("train", "--sagemaker_program", "train.py", "--tensor_parallel_size", "8")
    assert replace(pretrain.job, kept_fields=()) == Job(
        name="llama-pretrain",
        roles=(
            Role(
                replicas=4,
                instance="trn1.32xlarge",
                is_exclusive=True,
                image="111122223333.dkr.ecr.us-east-2.amazonaws.com/train:1",
                environment=(("FI_PROVIDER", "efa"), ("NEURON_CC_FLAGS", "$FLAGS")),
                command=words,
            ),
        ),
        region="us-east-2",
        time_limit_s=86400.0,
        model="llama-3.1-8b",
    )


def test_fields_have_their_lines(pretrain):
    paths = {
        "name": 2,
        "roles.0.image": 4,
        "roles.0.command": 8,
        "roles.0.parameters.tensor_parallel_size": 10,
        "roles.0.environment.NEURON_CC_FLAGS": 14,
        "roles.0.instance": 19,
        "roles.0.replicas": 20,
        "region": 22,
        "time_limit_s": 24,
        "model": 25,
    }
    assert {path: pretrain.line_of(path).line for path in paths} == paths
    assert [(value.field, value.text) for value in pretrain.templates] == [
        ("roles.0.environment.NEURON_CC_FLAGS", "$FLAGS")
    ]


def test_a_written_job_is_the_one_that_was_read(pretrain):
    text = write_spec(pretrain.job, NAME)
    assert same(read(text, NAME).job, pretrain.job)
    original = json.loads((SPECS / "sagemaker_training.json").read_text())
    written = json.loads(text)
    assert [tag["Key"] for tag in written["Tags"]] == ["team", "trnsim:model"]
    assert written == original


def test_groups_of_instances_are_roles():
    groups = [
        {"InstanceGroupName": name, "InstanceType": f"ml.{kind}", "InstanceCount": count}
        for name, kind, count in (("head", "m5.large", 1), ("workers", "trn1.32xlarge", 2))
    ]
    spec = read(of(ResourceConfig={"InstanceGroups": groups}, Environment={"A": "$B"}), NAME)
    assert [(role.name, role.instance, role.replicas) for role in spec.job.roles] == [
        ("head", "m5.large", 1),
        ("workers", "trn1.32xlarge", 2),
    ]
    assert spec.job.roles[1].environment == (("A", "$B"),)
    assert [value.field for value in spec.templates] == [
        "roles.0.environment.A",
        "roles.1.environment.A",
    ]
    text = write_spec(spec.job, NAME)
    assert read(text, NAME).job == spec.job
    assert problems(json.loads(text), *API) == []


def test_hyperparameters_beside_arguments_are_kept():
    algorithm = {"ContainerEntrypoint": ["bash", "-c"], "ContainerArguments": ["run"]}
    text = of(AlgorithmSpecification=algorithm, HyperParameters={"a": "1"})
    job = read(text, NAME).job
    assert (job.roles[0].command, job.roles[0].entry_words) == (("bash", "-c", "run"), 2)
    assert KeptField(("HyperParameters", "a"), "1") in job.kept_fields
    assert read(write_spec(job, NAME), NAME).job == job


def test_a_stack_is_read_through(tmp_path):
    path = tmp_path / "stack.yaml"
    path.write_text(
        "Resources:\n  Train:\n    Type: AWS::SageMaker::TrainingJob\n    Properties:\n"
        "      ResourceConfig: {InstanceType: !Ref Kind, InstanceCount: 2}\n"
        "      HyperParameters: {lr: 0.1}\n"
    )
    (spec,) = read_specs(path)
    assert spec.job.name == "Train"
    assert spec.job.roles == (
        Role(replicas=2, instance="${Kind}", is_exclusive=True, command=("train", "--lr", "0.1")),
    )
    assert [(value.field, value.text) for value in spec.templates] == [
        ("roles.0.instance", "${Kind}")
    ]
    assert spec.line_of("name").line == 2


def test_ranks_meet_at_the_first_host():
    job = planned_job(machine("trn1.32xlarge", 2), Layout(tensor=8, data=8), model="llama-3.1-8b")
    text = write_spec(job, NAME)
    assert problems(json.loads(text), *API) == []
    assert (
        "MASTER_ADDR=algo-1" in json.loads(text)["AlgorithmSpecification"]["ContainerArguments"][2]
    )
    again = read(text, NAME).job
    assert again.roles[0].command == job.roles[0].command
    assert again.roles[0].processes == job.roles[0].processes


def test_what_the_instance_gives_is_left_out():
    role = Role(
        instance="trn1.32xlarge",
        is_exclusive=True,
        devices=16,
        efa=8,
        vcpus=96.0,
        memory_bytes=2**38,
        hugepages_bytes=2**30,
        capabilities=("IPC_LOCK",),
    )
    again = read(write_spec(Job(name="a", roles=(role,)), NAME), NAME).job
    assert again.roles == (Role(instance="trn1.32xlarge", is_exclusive=True),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (of(ResourceConfig={"InstanceType": "trn1.2xlarge"}), "4: .*'trn1.2xlarge'; legal: a type"),
        (of(ResourceConfig={"InstanceCount": "x"}), "4: .*InstanceCount is 'x'; legal: a whole"),
        (of(ResourceConfig={"InstanceGroups": 1}), "4: .*InstanceGroups is 1; legal: a list"),
        (of(StoppingCondition={"MaxRuntimeInSeconds": 0}), "5: .*; legal: a whole number from 1"),
        (of(Environment={"A": ["b"]}), r"5: Environment.A is \['b'\]; legal: text"),
        (of(HyperParameters={"A": {}}), "5: HyperParameters.A.*; legal: text"),
        (of(Tags="no"), "4: Tags is 'no'; legal: a list"),
        (of(AlgorithmSpecification={"ContainerArguments": [{}]}), "5: .*; legal: a list of texts"),
    ],
)
def test_malformed_values_are_refused_at_their_lines(text, why):
    with pytest.raises(BadInput, match=f"^spec.json:{why}"):
        read(text, NAME)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(name="a"), "a training job needs a role"),
        (Job(name="a_b", roles=(ALONE,)), "name is 'a_b'; legal for SageMaker"),
        (Job(name="a" * 64, roles=(ALONE,)), "a.; legal for SageMaker: 1 to 63"),
        (Job(name="a", kind=JobKind.SERVING, roles=(ALONE,)), "a serving job is no training job"),
        (Job(name="a", copies=2, roles=(ALONE,)), "copies is 2: SageMaker has no arrays"),
        (Job(name="a", time_limit_s=0.5, roles=(ALONE,)), "legal: a whole number of seconds"),
        (Job(name="a", roles=(Role(),)), "role 'main' shares its instance"),
        (Job(name="a", roles=(replace(ALONE, shm_bytes=1),)), "no field for /dev/shm"),
        (Job(name="a", roles=(replace(ALONE, cores=1),)), "cores is 1: a container of SageMaker"),
        (Job(name="a", roles=(replace(ALONE, processes=2),)), "a container is started once"),
        (Job(name="a", roles=(replace(ALONE, is_privileged=True),)), "no privileged containers"),
        (Job(name="a", roles=(replace(ALONE, capabilities=("A",)),)), "adds no capabilities"),
        (Job(name="a", roles=(replace(ALONE, least_replicas=1),)), "does not grow"),
        (
            Job(name="a", roles=(replace(ALONE, instance="trn1.32xlarge", devices=4),)),
            "devices is 4; a container of SageMaker has its whole instance: 16 of trn1.32xlarge",
        ),
        (
            Job(name="a", roles=(replace(ALONE, instance="trn1.32xlarge", vcpus=129.0),)),
            "vcpus is 129.0; a container of SageMaker has its whole instance: 128",
        ),
        (
            Job(name="a", roles=(ALONE, replace(ALONE, image="b"))),
            "image is '' in one role and 'b' in another: instance groups",
        ),
        (
            Job(name="a", roles=(replace(ALONE, command=("a",) * 101),)),
            "the command has 101 words, the longest of 1 characters; legal in SageMaker",
        ),
        (Job(name="a", roles=(replace(ALONE, command=("a" * 257,)),)), "the longest of 257"),
    ],
)
def test_a_job_that_sagemaker_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, NAME)


PARAMETERS = st.dictionaries(WORDS, WORDS, max_size=4).map(
    lambda pairs: (
        "train",
        *(word for name, value in pairs.items() for word in (f"--{name}", value)),
    )
)
COMMANDS = st.one_of(
    st.tuples(PARAMETERS, st.just(0)),
    st.lists(WORDS, max_size=6).flatmap(
        lambda words: st.tuples(st.just(tuple(words)), st.integers(0, len(words)))
    ),
)
KINDS = st.sampled_from(["trn1.32xlarge", "trn2.48xlarge", "p5.48xlarge", "m5.large"])


@st.composite
def jobs(draw):
    command, entry_words = draw(COMMANDS)
    fields = {
        "is_exclusive": True,
        "image": draw(WORDS),
        "environment": draw(UNIQUE_VARIABLES),
        "command": command,
        "entry_words": entry_words,
    }
    names = draw(
        st.just(["main"])
        | st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=5)
    )
    roles = [
        Role(name=name, instance=draw(KINDS), replicas=draw(st.integers(0, 10**6)), **fields)
        for name in names
    ]
    return Job(
        name=draw(HOSTS),
        roles=tuple(roles),
        model=draw(MODELS),
        time_limit_s=draw(st.none() | st.integers(1, 10**6).map(float)),
        kept_fields=draw(
            st.sampled_from([(), (KeptField(("ResourceConfig", "VolumeSizeInGB"), 9),)])
        ),
    )


@settings(max_examples=4)
@given(jobs())
def test_written_jobs_are_read_back(job):
    check_round_trip(job, NAME, API)


@pytest.mark.slow
@settings(max_examples=200)
@given(jobs())
def test_many_written_jobs_are_read_back(job):
    check_round_trip(job, NAME, API)


@needs_moto
@pytest.mark.slow
@settings(max_examples=1)
@given(st.lists(jobs(), min_size=20, max_size=20))
def test_moto_describes_what_it_took(jobs):
    # Moto describes a training job without its environment.
    jobs = [demanded(replace(job, model=""), environment=()) for job in jobs]
    jobs = [replace(job, name=f"a{index}") for index, job in enumerate(jobs)]
    assert from_moto(jobs, NAME, ("sagemaker", *MOTO), ARGUMENTS) == jobs
