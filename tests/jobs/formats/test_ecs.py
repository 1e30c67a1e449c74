import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cases import (
    MODELS,
    NAMES,
    check_round_trip,
    containers,
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
from trnsim.jobs.parallelism import Parallelism

SPECS = Path(__file__).parent / "specs"
API = ("ecs", "RegisterTaskDefinition")
MOTO = ("register_task_definition", "describe_task_definition", "")
MIB = 2**20


def of(**fields):
    """The text of a task of one container."""
    container = {"name": "main", "image": "i", **fields}
    return json.dumps({"family": "f", "containerDefinitions": [container]}, indent=1)


@pytest.fixture(scope="module")
def server():
    (spec,) = read_specs(SPECS / "ecs_server.json")
    return spec


def test_a_task_is_read_whole(server):
    assert server.format == "ecs"
    assert server.job.name == "chat"
    assert server.job.kind is JobKind.SERVING
    assert server.job.roles == (
        Role(
            name="server",
            instance="inf2.48xlarge",
            devices=2,
            device_indexes=(1, 0),
            efa=1,
            vcpus=48.0,
            memory_bytes=262144 * MIB,
            shm_bytes=8192 * MIB,
            capabilities=("IPC_LOCK",),
            is_memlock_unlimited=True,
            image="example/vllm-neuron:1",
            environment=(
                ("NEURON_RT_NUM_CORES", "8"),
                ("MODEL_PATH", "${MODEL}"),
                ("EMPTY", ""),
            ),
            command=("vllm", "serve", "--model", "llama", "--tensor-parallel-size", "8"),
            entry_words=2,
        ),
    )


def test_fields_have_their_lines(server):
    lines = {path: server.line_of(f"roles.0.{path}").line for path in vars(server.job.roles[0])}
    assert lines == dict.fromkeys(lines, 1) | {
        "name": 15,
        "instance": 6,
        "command": 17,
        "vcpus": 19,
        "memory_bytes": 20,
        "environment": 24,
        "is_memlock_unlimited": 30,
        "capabilities": 33,
        "shm_bytes": 34,
        "device_indexes": 38,
        "devices": 38,
        "efa": 44,
        "image": 16,
    }
    assert server.line_of("roles.0.environment.MODEL_PATH").line == 25


def test_templates_are_named(server):
    assert [(value.field, value.text) for value in server.templates] == [
        ("roles.0.environment.MODEL_PATH", "${MODEL}")
    ]


def test_other_containers_and_fields_are_kept(server):
    names = [kept.name for kept in server.job.kept_fields]
    assert names[:5] == [
        "requiresCompatibilities[0]",
        "placementConstraints[0].type",
        "placementConstraints[0].expression",
        "containerDefinitions[0].name",
        "containerDefinitions[0].image",
    ]
    ours = "containerDefinitions[1].linuxParameters.devices"
    assert f"{ours}./dev/neuron1.permissions[0]" in names
    assert f"{ours}[3].hostPath" in names
    assert "containerDefinitions[1].ulimits[0].softLimit" in names


def test_a_written_task_is_the_one_that_was_read(server):
    text = write_spec(server.job, "ecs")
    assert same(read(text, "ecs").job, server.job)
    assert problems(json.loads(text), *API) == []
    written = json.loads(text)["containerDefinitions"][1]["linuxParameters"]["devices"]
    assert [device["hostPath"] for device in written] == [
        "/dev/kmsg",
        "/dev/infiniband/uverbs0",
        "/dev/neuron1",
        "/dev/neuron2",
        "/dev/neuron0",
    ]
    assert written[2]["permissions"] == ["read", "write"]
    original = json.loads((SPECS / "ecs_server.json").read_text())
    assert sorted(original) == sorted(json.loads(text))


def test_a_stack_is_read_through():
    (spec,) = read_specs(SPECS / "ecs_stack.yaml")
    (role,) = spec.job.roles
    assert spec.job.name == "Training"
    assert role == Role(
        name="train",
        image="${AWS::AccountId}.dkr.ecr/${Image}:1",
        command=("torchrun", "--nproc-per-node", "4", "train.py"),
        processes=4,
        environment=(("LEVEL", '${If ["IsLoud", "debug", "info"]}'),),
        devices=2,
        vcpus=8.0,
        memory_bytes=16384 * MIB,
    )
    lines = {name: spec.line_of(f"roles.0.{name}").line for name in ("image", "devices", "vcpus")}
    assert lines == {"image": 17, "devices": 24, "vcpus": 12}
    assert spec.line_of("name").line == 8
    assert [(value.field, value.text) for value in spec.templates] == [
        ("roles.0.shm_bytes", "${Size}"),
        ("roles.0.image", "${AWS::AccountId}.dkr.ecr/${Image}:1"),
        ("roles.0.environment.LEVEL", '${If ["IsLoud", "debug", "info"]}'),
    ]
    kept = {field.name: field.value for field in spec.job.kept_fields}
    assert kept["taskRoleArn"] == "${Role.Arn}"
    assert kept["containerDefinitions[0].logConfiguration.options.Awslogs-Group"] == "${Bucket}"
    assert same(read(write_spec(spec.job, "ecs"), "ecs").job, spec.job)


def test_a_described_task_is_read_inside():
    text = json.dumps({"taskDefinition": json.loads(of(cpu=1024))})
    assert read(text, "ecs").job.roles[0].vcpus == 1.0


def test_all_devices_of_a_managed_instance_are_kept():
    job = read(of(resourceRequirements=[{"type": "NeuronDevice", "value": "ALL"}]), "ecs").job
    assert job.roles[0].devices is None
    assert [kept.value for kept in job.kept_fields] == ["NeuronDevice", "ALL"]
    assert read(write_spec(job, "ecs"), "ecs").job == job


def test_interfaces_that_do_not_begin_with_0_are_kept():
    job = read(
        of(linuxParameters={"devices": [{"hostPath": "/dev/infiniband/uverbs1"}]}), "ecs"
    ).job
    assert job.roles[0].efa is None
    assert len(job.kept_fields) == 1


def test_several_containers_with_devices_are_roles():
    rows = [
        {"name": name, "image": "i", "resourceRequirements": [{"type": "GPU", "value": "1"}]}
        for name in ("a", "b")
    ]
    spec = read(json.dumps({"family": "f", "containerDefinitions": rows}), "ecs")
    assert [(role.name, role.gpus) for role in spec.job.roles] == [("a", 1), ("b", 1)]
    assert same(read(write_spec(spec.job, "ecs"), "ecs").job, spec.job)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"containerDefinitions": []}', "1: containerDefinitions is \\[\\]: a task needs a cont"),
        ('{"containerDefinitions": {}}', "1: containerDefinitions.*; legal: a list"),
        ('{"containerDefinitions": [1]}', r"1: containerDefinitions\[0\] is 1; legal: a mapping"),
        (of(cpu=1.5), "7: .*cpu is 1.5; legal: a whole number from 0 on"),
        (of(cpu=10**15), "7: .*cpu is 1000000000000000; legal: a whole number"),
        (of(memory="much"), "7: .*memory is 'much'; legal: a whole number from 0 on"),
        (of(image=["a"]), r"6: .*image is \['a'\]; legal: text"),
        (of(environment=[{"value": "a"}]), "8: .*: a variable without a name"),
        (of(environment={"A": "b"}), "7: .*environment.*; legal: a list"),
        (of(environment=[{"name": "A", "value": {}}]), "10: .*value.*; legal: text"),
        (of(command=[["a"]]), "7: .*command.*; legal: a list of texts"),
        (of(privileged="perhaps"), "7: .*privileged is 'perhaps'; legal: true, false"),
        (of(linuxParameters={"devices": "/dev/neuron0"}), "8: .*devices.*; legal: a list"),
        (of(linuxParameters={"sharedMemorySize": -1}), "8: .*; legal: a whole number from 0 on"),
        (
            of(resourceRequirements=[{"type": "GPU", "value": "x"}]),
            "10: .*value is 'x'; legal: a whole number from 0 on",
        ),
    ],
)
def test_malformed_values_are_refused_at_their_lines(text, why):
    with pytest.raises(BadInput, match=f"^spec.json:{why}"):
        read(text, "ecs")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(name="a b", roles=(Role(),)), "name is 'a b'; legal for a family of ECS"),
        (Job(name="a", kind=JobKind.CLUSTER, roles=(Role(),)), "a cluster is no ECS task"),
        (Job(name="a", kind=JobKind.SERVING, roles=(Role(),)), "a serving job without a port"),
        (Job(name="a", roles=(Role(command=("--port", "1")),)), "a training job with a port"),
        (Job(name="a", roles=(Role(replicas=2),)), "role 'main': replicas is 2: RunTask"),
        (Job(name="a", copies=2, roles=(Role(),)), "copies is 2: RunTask"),
        (Job(name="a", time_limit_s=5.0, roles=(Role(),)), "time_limit_s is 5.0: .* no time limit"),
        (Job(name="a", parallelism=Parallelism(tensor=2)), "parallelism is .*: .* no field for it"),
        (Job(name="a", roles=(Role(cores=2),)), "cores is 2: ECS hands out devices"),
        (Job(name="a", roles=(Role(processes=2),)), "processes is 2: a container is started once"),
        (Job(name="a", roles=(Role(is_exclusive=True),)), "has its instance for itself: ECS"),
        (Job(name="a", roles=(Role(memory_bytes=1),)), "memory_bytes is 1; legal: .* of MiB"),
        (Job(name="a", roles=(Role(vcpus=0.1),)), "vcpus is 0.1; legal: .* of CPU units"),
        (
            Job(name="a", roles=(Role(devices=2, device_indexes=(1,)),)),
            r"role 'main' has 2 devices and the numbers \(1,\)",
        ),
        (
            Job(name="a", roles=(Role(instance="inf2.xlarge"), Role(instance="trn1.2xlarge"))),
            "instance is 'inf2.xlarge' in one role and 'trn1.2xlarge' in another",
        ),
    ],
)
def test_a_job_that_ecs_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "ecs")


def test_all_devices_of_an_instance_have_numbers():
    role = Role(instance="trn1.32xlarge", devices=16, is_exclusive=True)
    text = write_spec(Job(name="a", roles=(role,)), "ecs")
    assert read(text, "ecs").job.roles[0].device_indexes == tuple(range(16))


def test_a_name_of_a_template_is_written_back():
    job = Job(name="$NAME", roles=(Role(),))
    assert read(write_spec(job, "ecs"), "ecs").job == job


ROLES = st.lists(
    containers(
        name=NAMES,
        capabilities=st.sampled_from([(), ("IPC_LOCK",), ("SYS_ADMIN", "IPC_LOCK")]),
        instance=st.just("trn1.32xlarge"),
        gpus=st.integers(0, 8),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
KEPT = (KeptField(("tags", 0, "key"), "team"), KeptField(("tags", 0, "value"), "a"))
JOBS = st.builds(
    Job, name=NAMES, roles=ROLES, model=MODELS, kept_fields=st.sampled_from([(), KEPT])
)


@settings(max_examples=4)
@given(JOBS)
def test_written_jobs_are_read_back(job):
    check_round_trip(job, "ecs", API)


@pytest.mark.slow
@settings(max_examples=200)
@given(JOBS)
def test_many_written_jobs_are_read_back(job):
    check_round_trip(job, "ecs", API)


@needs_moto
@pytest.mark.slow
@settings(max_examples=1)
@given(st.lists(JOBS, min_size=20, max_size=20))
def test_moto_describes_what_it_took(jobs):
    jobs = [demanded(replace(job, model=""), image="i", memory_bytes=2**30) for job in jobs]
    assert from_moto(jobs, "ecs", ("ecs", *MOTO)) == jobs


def test_a_resource_may_be_left_to_a_template(tmp_path: Path) -> None:
    container = {"name": "t", "image": "i", "memory": 1024, "resourceRequirements": ["${DEVICES}"]}
    path = tmp_path / "task.json"
    path.write_text(json.dumps({"family": "f", "containerDefinitions": [container]}))

    (spec,) = read_specs(path)

    assert spec.job.roles[0].devices is None
    assert "${DEVICES}" in write_spec(spec.job, "ecs")
