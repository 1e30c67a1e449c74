import json
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cases import check_round_trip, problems, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes_jobs import ONE, jobs, roles

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.rules import findings

SPECS = Path(__file__).parent / "specs"
API = ("batch", "RegisterJobDefinition")
GIB = 2**30
POD = {"podProperties": {"containers": [{"name": "c", "image": "i"}]}}
ALONE = Role(is_exclusive=True)


def definition(**fields):
    return json.dumps({"jobDefinitionName": "a", **fields}, indent=1)


def nodes(*targets, **fields):
    rows = [{"targetNodes": target, "eksProperties": POD} | fields for target in targets]
    return definition(
        type="multinode", nodeProperties={"numNodes": 4, "mainNode": 0, "nodeRangeProperties": rows}
    )


def test_the_pod_is_the_role():
    (spec,) = read_specs(SPECS / "batch_eks.json")
    assert (spec.format, spec.job.name, spec.job.time_limit_s) == ("batch-eks", "tune", 3600.0)
    assert spec.job.roles == (
        Role(
            name="train",
            processes=8,
            devices=4,
            vcpus=16.0,
            memory_bytes=64 * GIB,
            shm_bytes=GIB,
            is_privileged=True,
            image="repository/tune:1",
            environment=(("FI_PROVIDER", "efa"),),
            command=("torchrun", "--nproc-per-node=8", "train.py", "--lr", "Ref::rate"),
            entry_words=2,
        ),
    )
    lines = {"name": 2, "roles.0.devices": 20, "roles.0.command": 13, "time_limit_s": 5}
    assert {path: spec.line_of(path).line for path in lines} == lines
    text = write_spec(spec.job, "batch-eks")
    assert problems(json.loads(text), *API) == []
    assert read(text, "batch-eks").job == spec.job


def test_a_kept_field_of_resources_may_be_a_text():
    pod = json.loads(json.dumps(POD))
    pod["podProperties"]["containers"][0]["resources"] = {"limits": {"cpu": "4"}, "note": "text"}
    text = definition(type="container", eksProperties=pod)
    written = json.loads(write_spec(read(text, "batch-eks").job, "batch-eks"))
    (container,) = written["eksProperties"]["podProperties"]["containers"]
    assert container["resources"]["note"] == "text"


def test_rules_of_pods_hold(tmp_path):
    text = (SPECS / "batch_eks.json").read_text()
    path = tmp_path / "a.json"
    path.write_text(text.replace("--nproc-per-node=8", "AWS_BATCH").replace("FI_PR", "AWS_BATCH_"))
    (spec,) = read_specs(path)
    assert [finding.rule for finding in findings(spec)] == ["batch-variable"]
    path.write_text(text)
    assert [findings(spec) for spec in read_specs(path)] == [[]]


def test_a_range_of_nodes_is_a_role():
    spec = read(nodes("0:0", "1:", instanceTypes=["trn1.32xlarge"]), "batch-eks")
    assert [(own.replicas, own.instance) for own in spec.job.roles] == [
        (1, "trn1.32xlarge"),
        (3, "trn1.32xlarge"),
    ]
    text = write_spec(spec.job, "batch-eks")
    assert problems(json.loads(text), *API) == []
    assert read(text, "batch-eks").job == spec.job
    assert spec.line_of("roles.1.instance").line == 37


def test_a_template_has_definitions_of_several_formats(tmp_path):
    pod = {"PodProperties": {"Containers": [{"Name": "c", "Image": "i"}]}}
    resources = {
        "Pods": ("Batch::JobDefinition", {"Type": "container", "EksProperties": pod}),
        "Server": ("ECS::TaskDefinition", {"ContainerDefinitions": [{"Name": "a", "Image": "i"}]}),
        "Boxes": ("Batch::JobDefinition", {"ContainerProperties": {"Image": "i"}}),
    }
    path = tmp_path / "stack.json"
    rows = {
        name: {"Type": f"AWS::{kind}", "Properties": fields}
        for name, (kind, fields) in resources.items()
    }
    path.write_text(json.dumps({"Resources": rows}, indent=1))
    found = [(spec.job.name, spec.format) for spec in read_specs(path)]
    assert found == [("Pods", "batch-eks"), ("Server", "ecs"), ("Boxes", "batch")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (definition(eksProperties=[]), "3: eksProperties is .*; legal: a mapping"),
        (definition(eksProperties={"podProperties": 1}), "4: .*podProperties is 1; legal: a map"),
        (definition(eksProperties={}), "3: .*containers is missing; legal: a list of one"),
        (nodes("1:"), "7: .*: no range has node 0 of 4"),
    ],
)
def test_malformed_values_are_refused_at_their_lines(text, why):
    with pytest.raises(BadInput, match=f"^spec.json:{why}"):
        read(text, "batch-eks")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Job(name="a"), "0 roles; a Batch job on EKS has 1 to 5 roles"),
        (Job(name="a", kind=JobKind.SERVING, roles=(Role(),)), "a serving job is no Batch job"),
        (Job(name="a", roles=(Role(replicas=2),)), "no instance and has no replicas"),
        (Job(name="a", roles=(Role(instance="trn1.2xlarge"),)), "names no instance"),
        (Job(name="a", roles=(ALONE, Role())), "names no instance and has no replicas"),
        (
            Job(name="a", region="us-east-2", roles=(Role(),)),
            "region is 'us-east-2'; the job queue",
        ),
        (Job(name="a", purchase="spot", roles=(Role(),)), "purchase is 'spot'; the job queue"),
        (
            Job(name="a", roles=(Role(command=("a", "$MASTER_ADDR")),)),
            "a command names MASTER_ADDR",
        ),
        (Job(name="a", copies=10_001, roles=(Role(),)), "1, or 2 to 10,000"),
    ],
)
def test_a_job_that_batch_on_eks_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match=why):
        write_spec(job, "batch-eks")


def on_a_node(own):
    """A role that names no node, as Batch chooses it."""
    return replace(own, instance="")


SINGLES = roles(replicas=ONE).map(lambda own: (on_a_node(own),))
RANGES = st.lists(
    roles(replicas=st.integers(1, 10**6)).map(lambda own: replace(own, is_exclusive=True)),
    min_size=1,
    max_size=3,
).map(tuple)
JOBS = jobs(
    SINGLES | RANGES,
    region=st.just(""),
    time_limit_s=st.sampled_from([None, 60.0, 1e9]),
    copies=st.sampled_from([1, 2, 10_000]),
    kept_fields=st.sampled_from([(), (KeptField(("retryStrategy", "attempts"), 2),)]),
)


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(JOBS)
def test_written_jobs_are_read_back(job):
    check_round_trip(job, "batch-eks", API)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(JOBS)
def test_many_written_jobs_are_read_back(job):
    check_round_trip(job, "batch-eks", API)
