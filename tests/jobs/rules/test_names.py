import json
from dataclasses import replace

import pytest
import yaml

from trnsim.errors import SourceLine
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.names import RULES
from trnsim.jobs.spec import JobSpec

ROLE = Role(devices=1, device_indexes=(0,), image="a/b:1")
POD = Role(devices=1, image="a/b:1")


def spec_of(form, name="a", role=ROLE, kind=JobKind.TRAINING):
    return JobSpec(form, Job(name=name, roles=(role,), kind=kind), SourceLine("f", 1))


def named(spec):
    return [(row.rule, row.severity) for row in findings(spec, RULES)]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NEURON_RT_VISIBLE_CORE", "NEURON_RT_VISIBLE_CORES"),
        ("NEURON_RT_NUMCORES", "NEURON_RT_NUM_CORES"),
        ("NEURON_VISIBLE_CORES", "NEURON_RT_VISIBLE_CORES"),
        ("NEURON_LOGICAL_NC_CONFG", "NEURON_LOGICAL_NC_CONFIG"),
        ("FI_EFA_USE_DEVICE_RMDA", "FI_EFA_USE_DEVICE_RDMA"),
        ("FI_PROVIDERS", "FI_PROVIDER"),
    ],
)
def test_a_misspelled_variable_is_found_at_its_line(tmp_path, name, near):
    path = tmp_path / "a.json"
    document = yaml.safe_load(write_spec(Job(name="a", roles=(POD,)), "pod"))
    document["spec"]["containers"][0]["env"] = [{"name": name, "value": "0"}]
    path.write_text(json.dumps(document, indent=1))
    (spec,) = read_specs(path)
    (row,) = findings(spec, RULES)
    assert (row.rule, row.fix) == ("misspelled-variable", f"rename it to {near}")
    lines = path.read_text().split("\n")
    assert name in " ".join(lines[row.place.line - 2 : row.place.line])


@pytest.mark.parametrize(
    "name",
    [
        "NEURON_RT_VISIBLE_CORES", "NEURON_RT_INSPECT_SYSTEM_PROFILE", "NEURON_RT_NEW_SETTING",
        "NEURON_FSDP", "FI_LOG_LEVEL", "NEURON_RT_LOG_LEVEL_NRT", "VISIBLE_CORES", "NEURON",
    ],
)  # fmt: skip
def test_variables_that_are_read_and_the_users_own_are_legal(name):
    assert named(spec_of("pod", role=replace(POD, environment=((name, "0"),)))) == []


@pytest.mark.parametrize(
    ("form", "name", "is_legal"),
    [
        ("sagemaker-training", "pre-train1", True),
        ("sagemaker-training", "pre_train", False),
        ("sagemaker-training", "a" * 63, True),
        ("sagemaker-training", "a" * 64, False),
        ("sagemaker-training", "train-", False),
        ("sagemaker-endpoint", "-a", False),
        ("batch", "pre_train-1", True),
        ("batch", "pre train", False),
        ("batch", "a" * 129, False),
        ("batch-eks", "Pre_Train", True),
        ("ecs", "a" * 255, True),
        ("ecs", "a.b", False),
        ("pod", "llama-3.1", True),
        ("pod", "Llama", False),
        ("pod", "pre_train", False),
        ("jobset", "a" * 254, False),
        ("pytorchjob", "a..b", False),
        ("pod", "${NAME}", True),
        ("pod", "", True),
        ("sbatch", "any name_1", True),
    ],
)
def test_a_name_is_legal_where_the_job_is_created(form, name, is_legal):
    expected = [] if is_legal else [("job-name", "error")]
    assert named(spec_of(form, name, POD)) == expected


def test_a_name_has_a_legal_one_as_its_fix():
    (row,) = findings(spec_of("pod", "Pre_Train 1", POD), RULES)
    assert row.fix == "name it pre-train-1"
    (row,) = findings(spec_of("pod", "___", POD), RULES)
    assert row.fix == "name it train"


@pytest.mark.parametrize("form", ["pod", "job", "jobset", "rayjob", "ecs", "batch"])
def test_a_container_without_an_image_is_found(form):
    assert named(spec_of(form, role=replace(ROLE, image=""))) == [("container-image", "error")]
    assert named(spec_of(form)) == []


def test_a_missing_image_is_told_within_its_container(tmp_path):
    path = tmp_path / "a.yaml"
    text = write_spec(Job(name="a", roles=(POD,)), "pod").replace("image: a/b:1\n", "tty: true\n")
    path.write_text(text)
    (row,) = findings(read_specs(path)[0], RULES)
    assert text.split("\n")[row.place.line - 1] == "  - name: main"


@pytest.mark.parametrize("form", ["sbatch", "sagemaker-training", "parallelcluster", "nxdt"])
def test_what_is_no_container_has_no_image(form):
    assert named(spec_of(form, role=replace(ROLE, image=""))) == []


@pytest.mark.parametrize(
    ("form", "job"),
    [
        ("jobset", Job(name="a", roles=(replace(POD, image=""),))),
        ("batch", Job(name="a", roles=(replace(ROLE, image=""),))),
        ("ecs", Job(name="a", roles=(replace(ROLE, image=""),))),
    ],
)
def test_a_written_job_without_an_image_has_a_template_for_it(tmp_path, form, job):
    path = tmp_path / f"a{FORMATS[form].suffix}"
    path.write_text(write_spec(job, form))
    (spec,) = read_specs(path)
    assert spec.job.roles[0].image == ""
    assert named(spec) == []


def pytorchjob(folder, replicas=1, role="Master", name="pytorch", more=()):
    containers = [{"name": name, "image": "i"}, *({"name": each, "image": "i"} for each in more)]
    roles = {role: {"replicas": replicas, "template": {"spec": {"containers": containers}}}}
    path = folder / "a.json"
    head = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}}
    path.write_text(json.dumps(head | {"spec": {"pytorchReplicaSpecs": roles}}, indent=1))
    return read_specs(path)[0]


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({}, []),
        ({"name": "main"}, ["container-name"]),
        ({"name": "main", "more": ("pytorch",)}, []),
        ({"name": "${NAME}"}, []),
        ({"replicas": 2}, ["role-replicas"]),
        ({"replicas": 0}, ["role-replicas"]),
        ({"replicas": 0, "role": "Worker"}, ["role-replicas"]),
        ({"replicas": 3, "role": "Worker"}, []),
        ({"replicas": None, "role": "Worker"}, []),
    ],
)
def test_the_operator_takes_a_job_of_kubeflow(tmp_path, fields, rules):
    spec = pytorchjob(tmp_path, **fields)
    rows = findings(spec, RULES)
    assert [row.rule for row in rows] == rules
    assert all(row.place.line > 5 and row.fix for row in rows)


def test_every_rule_is_broken_here():
    tested = {"misspelled-variable", "job-name", "container-image", "container-name"}
    assert {rule.name for rule in RULES} == tested | {"role-replicas"}
