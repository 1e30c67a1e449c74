import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cases import (
    MODELS,
    NAMES,
    WORDS,
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
from trnsim.jobs.planned import planned_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

SPECS = Path(__file__).parent / "specs"
API = ("batch", "RegisterJobDefinition")
MOTO = ("register_job_definition", "describe_job_definitions", "jobDefinitions")
MIB = 2**20


def single(**fields):
    """The text of a definition of one container."""
    return json.dumps(
        {"jobDefinitionName": "a", "type": "container", "containerProperties": fields}, indent=1
    )


def nodes(count, *ranges, **fields):
    """The text of a definition with ranges of nodes."""
    rows = [{"targetNodes": target, "container": {"image": "i"}} for target in ranges]
    properties = {"numNodes": count, "mainNode": 0, "nodeRangeProperties": rows} | fields
    return json.dumps(
        {"jobDefinitionName": "a", "type": "multinode", "nodeProperties": properties}, indent=1
    )


@pytest.fixture(scope="module")
def pretrain():
    (spec,) = read_specs(SPECS / "batch_nodes.json")
    return spec


def test_a_multi_node_job_is_read_whole(pretrain):
    assert pretrain.job.name == "pretrain"
    assert pretrain.job.time_limit_s == 3600.0
    assert pretrain.job.model == "llama-3.1-8b"
    assert pretrain.job.roles == (
        Role(
            name="main",
            replicas=3,
            instance="trn1.32xlarge",
            is_exclusive=True,
            processes=32,
            devices=2,
            device_indexes=(0, 1),
            efa=2,
            vcpus=96.0,
            memory_bytes=500000 * MIB,
            shm_bytes=1024 * MIB,
            is_memlock_unlimited=True,
            image="$REPOSITORY:1",
            environment=(("FI_PROVIDER", "efa"),),
            command=("torchrun", "--nproc-per-node=32", "train.py", "--tp", "8"),
        ),
        Role(
            name="nodes1",
            replicas=1,
            is_exclusive=True,
            gpus=1,
            vcpus=0.5,
            memory_bytes=2048 * MIB,
            image="other",
        ),
    )


def test_fields_have_their_lines(pretrain):
    paths = {
        "name": 2,
        "time_limit_s": 44,
        "roles.0.replicas": 6,
        "roles.0.instance": 12,
        "roles.0.command": 13,
        "roles.0.vcpus": 14,
        "roles.0.memory_bytes": 15,
        "roles.0.environment.FI_PROVIDER": 18,
        "roles.0.is_memlock_unlimited": 19,
        "roles.0.shm_bytes": 21,
        "roles.0.efa": 23,
        "roles.0.devices": 25,
        "roles.1.replicas": 32,
        "roles.1.memory_bytes": 36,
        "roles.1.vcpus": 37,
        "roles.1.gpus": 38,
    }
    assert {path: pretrain.line_of(path).line for path in paths} == paths
    assert [(value.field, value.place.line) for value in pretrain.templates] == [
        ("roles.0.image", 11)
    ]


def test_a_written_job_is_the_one_that_was_read(pretrain):
    text = write_spec(pretrain.job, "batch")
    assert same(read(text, "batch").job, pretrain.job)
    assert problems(json.loads(text), *API) == []
    written = json.loads(text)["nodeProperties"]
    assert [row["targetNodes"] for row in written["nodeRangeProperties"]] == ["0:2", "3:3"]
    container = written["nodeRangeProperties"][0]["container"]
    assert container["user"] == "root"
    assert container["linuxParameters"]["devices"][0] == {
        "hostPath": "/dev/infiniband/uverbs0",
        "containerPath": "/dev/infiniband/uverbs0",
        "permissions": ["READ", "WRITE"],
    }


@pytest.mark.parametrize(
    ("text", "replicas"),
    [
        (nodes(1, "0"), [1]),
        (nodes(4, "0:"), [4]),
        (nodes(4, ":3"), [4]),
        (nodes(11, "0:10", "4:5"), [9, 2]),
        (nodes(11, "4:5", "0:10"), [2, 9]),
        (nodes(4, "0:0", "1:"), [1, 3]),
        (nodes(2, "0:9"), [2]),
        (nodes("${N}", "0:"), [None]),
        (nodes("${N}", "0:3"), [4]),
        (nodes(1000, "0:", mainNode=1), [1000]),
    ],
)
def test_ranges_count_their_nodes(text, replicas):
    job = read(text, "batch").job
    assert [role.replicas for role in job.roles] == replicas
    again = read(write_spec(job, "batch"), "batch").job
    assert same(again, job)


def test_a_single_container_is_read():
    text = single(
        image="i",
        instanceType="trn1.2xlarge",
        resourceRequirements=[{"type": "MEMORY", "value": "4"}, {"type": "VCPU", "value": "1"}],
    )
    job = read(text, "batch").job
    assert job.roles == (Role(image="i", vcpus=1.0, memory_bytes=4 * MIB),)
    assert [kept.name for kept in job.kept_fields] == ["containerProperties.instanceType"]
    assert same(read(write_spec(job, "batch"), "batch").job, job)


def test_tasks_of_several_containers_are_read_and_not_written():
    containers = [{"image": "a", "name": "x", "privileged": True}, {"image": "b"}]
    task = {"taskProperties": [{"containers": containers}]}
    text = json.dumps({"jobDefinitionName": "a", "type": "container", "ecsProperties": task})
    job = read(text, "batch").job
    assert [(role.image, role.is_privileged) for role in job.roles] == [("a", True), ("b", False)]
    with pytest.raises(BadInput, match="ecsProperties is read, not written"):
        write_spec(job, "batch")


def test_ranks_meet_at_the_main_node():
    layout = Layout(tensor=8, data=8)
    job = planned_job(machine("trn1.32xlarge", 2), layout, model="llama-3.1-8b")
    text = write_spec(job, "batch")
    assert problems(json.loads(text), *API) == []
    (row,) = json.loads(text)["nodeProperties"]["nodeRangeProperties"]
    assert row["container"]["command"][:2] == ["/bin/sh", "-c"]
    assert "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS" in row["container"]["command"][2]
    again = read(text, "batch").job
    assert again.roles[0].command == job.roles[0].command
    assert again.roles[0].processes == job.roles[0].processes
    assert again.roles[0].device_indexes == tuple(range(16))
    assert again.model == job.model


def test_locked_memory_stands_for_ipc_lock():
    job = Job(name="a", roles=(Role(capabilities=("IPC_LOCK",), hugepages_bytes=2**30),))
    assert read(write_spec(job, "batch"), "batch").job.roles == (Role(is_memlock_unlimited=True),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (nodes(4), r"7: .*nodeRangeProperties is \[\]: a multi-node job needs a range of nodes"),
        (nodes(0, "0:"), "5: .*numNodes is 0; legal: a whole number from 1 on"),
        (nodes(4, "0:2"), "7: .*: no range has node 3 of 4"),
        (nodes(4, "1:"), "7: .*: no range has node 0 of 4"),
        (nodes(4, "3:1"), "9: .*targetNodes is '3:1'; legal: first:last, first: or :last"),
        (nodes(4, "all"), "9: .*targetNodes is 'all'; legal: first:last"),
        (nodes(4, "0:1000000000"), "9: .*; legal: first:last"),
        (nodes(4, ["0:"]), r"9: .*targetNodes is \['0:'\]; legal: text"),
        (single(vcpus="many"), "5: .*vcpus is 'many'; legal: a number such as 0.5"),
        (single(memory=0.5), "5: .*memory is 0.5; legal: a whole number from 0 on"),
        (single(resourceRequirements={}), "5: .*resourceRequirements.*; legal: a list"),
        (single(ulimits="none"), "5: .*ulimits is 'none'; legal: a list"),
        (single(environment=["A=b"]), r"6: .*environment\[0\] is 'A=b'; legal: a mapping"),
    ],
)
def test_malformed_values_are_refused_at_their_lines(text, why):
    with pytest.raises(BadInput, match=f"^spec.json:{why}"):
        read(text, "batch")


def test_documents_of_others_are_none():
    for content in ("[]", "1", '{"type": "container"}', '{"jobDefinitionName": "a"}', '"text"'):
        with pytest.raises(ValueError, match="not enough values"):
            read(content, "batch")


ALONE = Role(is_exclusive=True)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(name="a.b", roles=(Role(),)), "name is 'a.b'; legal for Batch"),
        (Job(name="a"), "a Batch job needs a role"),
        (Job(name="a", kind=JobKind.SERVING, roles=(Role(),)), "a serving job is no Batch job"),
        (Job(name="a", copies=0, roles=(Role(),)), "copies is 0; legal for an array job of Batch"),
        (Job(name="a", copies=10_001, roles=(Role(),)), "1, or 2 to 10,000"),
        (Job(name="a", time_limit_s=59.0, roles=(Role(),)), "legal in Batch: 60 s or more"),
        (Job(name="a", time_limit_s=60.5, roles=(Role(),)), "legal: a whole number of seconds"),
        (Job(name="a", model="a|b", roles=(Role(),)), "model is 'a|b'; legal for a tag"),
        (Job(name="a", parallelism=Parallelism(pipeline=2)), "no field for it"),
        (Job(name="a", roles=(Role(cores=2),)), "cores is 2: Batch hands out devices"),
        (Job(name="a", roles=(Role(entry_words=1, command=("a",)),)), "the image's entry point"),
        (Job(name="a", roles=(Role(processes=2),)), "processes is 2: a container is started once"),
        (Job(name="a", roles=(Role(capabilities=("SYS_ADMIN",)),)), "Batch adds none"),
        (Job(name="a", roles=(Role(devices=2),)), "2 devices without their numbers"),
        (Job(name="a", roles=(Role(replicas=2),)), "no instance and has no replicas"),
        (Job(name="a", roles=(Role(instance="trn1.2xlarge"),)), "names no instance"),
        (Job(name="a", roles=(ALONE, Role())), "names no instance and has no replicas"),
        (Job(name="a", roles=(Role(is_exclusive=True, replicas=0),)), "0 nodes; legal in Batch"),
        (
            Job(name="a", roles=(Role(is_exclusive=True, replicas=None), ALONE)),
            "the number of its nodes is not stated",
        ),
    ],
)
def test_a_job_that_batch_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "batch")


def renamed(roles):
    names = ["main", "nodes1", "nodes2"]
    return tuple(replace(role, name=name) for role, name in zip(roles, names, strict=False))


SINGLES = containers().map(lambda role: (role,))
RANGES = st.lists(
    containers(
        is_exclusive=st.just(True),
        instance=st.sampled_from(["", "trn1.32xlarge", "p5.48xlarge"]),
        replicas=st.integers(1, 10**6),
    ),
    min_size=1,
    max_size=3,
).map(renamed)
KEPT = (KeptField(("tags", "team"), "a"), KeptField(("retryStrategy", "attempts"), 2))
JOBS = st.builds(
    Job,
    name=NAMES | WORDS.map(lambda text: f"${{{text}}}"),
    roles=SINGLES | RANGES,
    model=MODELS,
    time_limit_s=st.none() | st.integers(60, 10**9).map(float),
    copies=st.sampled_from([1, 2, 10_000]),
    kept_fields=st.sampled_from([(), KEPT]),
)


@settings(max_examples=4)
@given(JOBS)
def test_written_jobs_are_read_back(job):
    check_round_trip(job, "batch", API)


@pytest.mark.slow
@settings(max_examples=200)
@given(JOBS)
def test_many_written_jobs_are_read_back(job):
    check_round_trip(job, "batch", API)


@needs_moto
@pytest.mark.slow
@settings(max_examples=1)
@given(st.lists(JOBS.filter(lambda job: not job.roles[0].is_exclusive), min_size=20, max_size=20))
def test_moto_describes_what_it_took(jobs):
    jobs = [demanded(job, image="i", memory_bytes=2**30, vcpus=1.0) for job in jobs]
    assert from_moto(jobs, "batch", ("batch", *MOTO)) == jobs
