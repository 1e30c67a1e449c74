import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.parallelism import Parallelism

SPECS = Path(__file__).parent / "specs"
ROOT = Path(__file__).resolve().parents[3]
CHECKER = ROOT / ".venv-specs" / "bin" / "python"


def spec_of(tmp_path, text):
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    (spec,) = read_specs(path)
    return spec


def queue(text, name="q"):
    return (
        f"Scheduling:\n  SlurmQueues:\n  - Name: {name}\n    ComputeResources:\n"
        f"    - Name: r\n      InstanceType: trn1.32xlarge\n{text}"
    )


def test_compute_resources_are_roles():
    (spec,) = read_specs(SPECS / "cluster.yaml")
    job = spec.job
    assert (spec.format, job.kind, job.region, job.purchase) == (
        "parallelcluster",
        JobKind.CLUSTER,
        "us-east-2",
        "capacity_block",
    )
    assert job.roles == (
        Role(
            name="train/trn2",
            replicas=4,
            least_replicas=4,
            instance="trn2.48xlarge",
            is_exclusive=True,
            efa=16,
        ),
        Role(
            name="train/trn1",
            replicas=None,
            instance="trn1.32xlarge",
            is_exclusive=True,
            efa=0,
            memory_bytes=500_000 << 20,
        ),
        Role(name="test", replicas=10, is_exclusive=True),
    )


def test_fields_have_lines_and_templates_and_the_rest_is_kept():
    (spec,) = read_specs(SPECS / "cluster.yaml")
    lines = {
        "region": 1,
        "purchase": 12,
        "roles.0.name": 18,
        "roles.0.instance": 19,
        "roles.0.replicas": 21,
        "roles.0.efa": 23,
        "roles.1.instance": 28,
        "roles.1.memory_bytes": 30,
        "roles.2.efa": 38,
    }
    assert {path: spec.line_of(path).line for path in lines} == lines
    assert [(value.field, value.text) for value in spec.templates] == [
        ("roles.1.replicas", "${NODES}"),
        ("roles.2.instance", "${INSTANCE}"),
    ]
    kept = {kept.name: kept.value for kept in spec.job.kept_fields}
    assert kept["Image.Os"] == "ubuntu2204"
    assert kept["Scheduling.SlurmQueues[0].Networking.PlacementGroup.Enabled"] is True
    assert kept["Scheduling.SlurmQueues[1].ComputeResources[0].Efa.Enabled"] is True
    assert kept["Tags"] == []
    assert "Scheduling.Scheduler" not in kept


def test_a_written_cluster_is_the_same(tmp_path):
    (spec,) = read_specs(SPECS / "cluster.yaml")
    written = write_spec(spec.job, "parallelcluster")
    assert "stands for" not in written
    assert spec_of(tmp_path, written).job == spec.job
    resources = yaml.safe_load(written)["Scheduling"]["SlurmQueues"][0]["ComputeResources"]
    assert resources[0]["CapacityReservationTarget"] == {
        "CapacityReservationId": "cr-0123456789abcdef0"
    }


def test_queues_that_differ_have_no_purchase_of_all(tmp_path):
    text = (SPECS / "cluster.yaml").read_text().replace("CAPACITY_BLOCK", "SPOT", 1)
    spec = spec_of(tmp_path, text)
    assert spec.job.purchase == ""
    assert spec_of(tmp_path, write_spec(spec.job, "parallelcluster")).job == spec.job


def test_a_written_cluster_has_a_place_for_a_subnet(tmp_path):
    job = Job(
        kind=JobKind.CLUSTER,
        roles=(Role(name="a/b", instance="trn2.48xlarge", is_exclusive=True, efa=16),),
    )
    written = write_spec(job, "parallelcluster")
    assert written.startswith("# subnet-00000000000000000 stands for a subnet of yours\n")
    assert spec_of(tmp_path, written).job == job


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (queue("      MaxCount: 0\n"), r"7: .*\[0\]\.MaxCount is 0; legal: a whole number from 1"),
        (queue("      MinCount: few\n"), "7: .*MinCount is 'few'; legal: a whole number"),
        (queue("      Efa: {Enabled: maybe}\n"), "7: .*Enabled is 'maybe'; legal: true, false"),
        (queue("      SchedulableMemory: [1]\n"), "7: .*SchedulableMemory is .*; legal: text"),
        (queue("", name="[a]"), "3: .*Name is .*; legal: text"),
        ("Scheduling:\n  SlurmQueues: [a]\n", r"2: .*SlurmQueues\[0\] is 'a'; legal: a mapping"),
        (
            "Scheduling:\n  SlurmQueues:\n  - ComputeResources: all\n",
            "3: .*is 'all'; legal: ComputeResources, a list of compute resources",
        ),
        ("Scheduling:\n  SlurmQueues:\n  - Name: a\n", "3: .*legal: ComputeResources, a list"),
        (
            "Scheduling:\n  SlurmQueues:\n  - ComputeResources:\n    - 5\n",
            "4: .*is 5; legal: a mapping of a compute resource's fields",
        ),
    ],
)
def test_a_value_that_is_not_legal_is_refused_at_its_line(tmp_path, text, why):
    with pytest.raises(BadInput, match=rf"cluster\.yaml:{why}"):
        spec_of(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "Scheduling: {Scheduler: awsbatch}\n",
        "Scheduling: {SlurmQueues: {}}\n",
        "Scheduling: [SlurmQueues]\n",
        "- Scheduling\n",
        "SlurmQueues: []\n",
    ],
)
def test_another_document_is_no_cluster(tmp_path, text):
    with pytest.raises(BadInput, match=r"no spec of a job|Scheduling has SlurmQueues"):
        spec_of(tmp_path, text)


def test_a_cluster_may_have_no_queue(tmp_path):
    assert spec_of(tmp_path, "Scheduling: {SlurmQueues: []}\n").job.roles == ()
    spec = spec_of(tmp_path, queue("      Efa:\n    CapacityType: [a]\n"))
    assert spec.job.purchase == ""
    spec = spec_of(tmp_path, queue("      Instances: []\n      Efa:\n"))
    assert (spec.job.roles[0].efa, spec.job.roles[0].least_replicas) == (None, None)


ROLE = Role(name="a/b", instance="trn1.32xlarge", is_exclusive=True)
CLUSTER = Job(kind=JobKind.CLUSTER, roles=(ROLE,))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(CLUSTER, kind=JobKind.TRAINING), "kind is training: the nodes of a cluster wait"),
        (replace(CLUSTER, purchase="savings"), "legal: on_demand, spot, capacity_block"),
        (replace(CLUSTER, name="a", copies=2), "name, copies stated: that is a job's"),
        (replace(CLUSTER, parallelism=Parallelism(tensor=2)), "parallelism stated"),
        (replace(CLUSTER, roles=(ROLE, ROLE)), "roles have the same name"),
        (
            replace(CLUSTER, roles=(ROLE, replace(ROLE, name="c"), replace(ROLE, name="a/d"))),
            "a queue stands once",
        ),
        (replace(CLUSTER, roles=(replace(ROLE, command=("x",)),)), "role a/b: command"),
        (replace(CLUSTER, roles=(replace(ROLE, is_exclusive=False),)), "a part of an instance"),
        (replace(CLUSTER, roles=(replace(ROLE, name="A b"),)), "role's name 'A b'"),
        (replace(CLUSTER, roles=(replace(ROLE, replicas=0),)), "0 replicas"),
        (replace(CLUSTER, roles=(replace(ROLE, least_replicas=2),)), "1 replicas"),
        (replace(CLUSTER, roles=(replace(ROLE, efa=1),)), "all interfaces of trn1.32xlarge"),
        (replace(CLUSTER, roles=(replace(ROLE, memory_bytes=1),)), "multiples of 1 MiB"),
        (replace(CLUSTER, roles=(replace(ROLE, instance=""),)), "a compute resource has a type"),
    ],
)
def test_a_job_that_a_cluster_cannot_express_is_refused(job, why):
    with pytest.raises(BadInput, match="parallelcluster cannot express the job: ") as error:
        write_spec(job, "parallelcluster")
    assert why in str(error.value)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
TYPES = st.sampled_from(
    ["trn1.32xlarge", "trn2.48xlarge", "p5.48xlarge", "inf2.xlarge", "m5.large"]
)


@st.composite
def compute_resources(draw, name):
    instance = draw(TYPES)
    row = catalogue().instances.get(instance)
    efa = [None, 0, *([row.efa_devices] if row and row.efa_devices else [])]
    replicas = draw(st.integers(1, 5000))
    return Role(
        name=name,
        replicas=replicas,
        least_replicas=draw(st.none() | st.integers(0, replicas)),
        instance=instance,
        is_exclusive=True,
        efa=draw(st.sampled_from(efa)),
        memory_bytes=draw(st.none() | st.integers(1, 1 << 22).map(lambda mib: mib << 20)),
    )


@st.composite
def clusters(draw):
    queues = draw(st.dictionaries(NAMES, st.sets(NAMES, min_size=1, max_size=3), max_size=3))
    names = [
        name if name == queue_name else f"{queue_name}/{name}"
        for queue_name, resources in queues.items()
        for name in sorted(resources)
    ]
    kept = []
    if draw(st.booleans()):
        kept.append(KeptField(("Image", "Os"), "ubuntu2204"))
    if names and draw(st.booleans()):
        keys = ("Scheduling", "SlurmQueues", 0, "Networking", "PlacementGroup", "Enabled")
        kept.append(KeptField(keys, draw(st.booleans())))
    purchases = ["", "on_demand", "spot", "capacity_block"] if names else [""]
    return Job(
        kind=JobKind.CLUSTER,
        roles=tuple(draw(compute_resources(name)) for name in names),
        region=draw(st.sampled_from(["", "us-east-2"])),
        purchase=draw(st.sampled_from(purchases)),
        kept_fields=tuple(kept),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("clusters")


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_a_written_job_is_read_as_it_was(folder, job):
    assert spec_of(folder, write_spec(job, "parallelcluster")).job == job


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_200_written_jobs_are_read_as_they_were(folder, job):
    assert spec_of(folder, write_spec(job, "parallelcluster")).job == job


CHECK = """
import json, sys
from pcluster.schemas.cluster_schema import ClusterSchema
for document in json.load(sys.stdin):
    ClusterSchema(cluster_name="a").load(document)
"""


@pytest.mark.slow
@pytest.mark.skipif(not CHECKER.exists(), reason="no .venv-specs: make .venv-specs/.made")
def test_parallelcluster_accepts_what_is_written():
    documents = []
    for role in (ROLE, replace(ROLE, efa=8, least_replicas=1, memory_bytes=1 << 30)):
        for purchase in ("", "on_demand", "spot", "capacity_block"):
            job = replace(CLUSTER, roles=(role,), purchase=purchase, region="us-east-2")
            documents.append(yaml.safe_load(write_spec(job, "parallelcluster")))
    (spec,) = read_specs(SPECS / "cluster.yaml")
    roles = tuple(
        replace(role, replicas=10, instance="trn1.32xlarge", efa=None) for role in spec.job.roles
    )
    kept = [kept for kept in spec.job.kept_fields if kept.value not in ("${NODES}", [])]
    job = replace(spec.job, roles=roles, kept_fields=tuple(kept))
    documents.append(yaml.safe_load(write_spec(job, "parallelcluster")))
    answer = subprocess.run(
        [CHECKER, "-c", CHECK],
        input=json.dumps(documents),
        text=True,
        capture_output=True,
        check=False,
        env=os.environ | {"AWS_DEFAULT_REGION": "us-east-2"},
    )
    assert answer.returncode == 0, answer.stderr
