import copy
import json
from dataclasses import replace

import pytest
import yaml

from trnsim.errors import BadInput
from trnsim.jobs.field_types import FieldTable, field_table
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.rules import findings

ROLE = Role(devices=16, image="a/b:1", command=("torchrun", "train.py"), entry_words=2)
NODE = Role(instance="trn1.32xlarge", is_exclusive=True, image="a/b:1")
JOBS = {
    "batch": Job(name="a", roles=(Role(devices=1, device_indexes=(0,), image="a/b:1"),)),
    "ecs": Job(name="a", roles=(Role(devices=1, device_indexes=(0,), image="a/b:1"),)),
    "hyperpod": Job(name="a", roles=(ROLE,)),
    "leaderworkerset": Job(name="a", kind=JobKind.SERVING, roles=(ROLE,)),
    "mpijob": Job(name="a", roles=(ROLE, Role(name="worker", devices=16, image="a/b:1"))),
    "parallelcluster": Job(
        kind=JobKind.CLUSTER,
        roles=(Role(name="q", instance="trn1.32xlarge", is_exclusive=True),),
        region="us-east-2",
    ),
    "sagemaker-endpoint": Job(name="a", kind=JobKind.SERVING, roles=(replace(NODE, image=""),)),
    "sagemaker-training": Job(name="a", roles=(NODE,)),
}
PLANTS = {
    "batch": [
        (("timeouts",), {}, "misspelled-field"),
        (("containerProperties", "colour"), "red", "unknown-field"),
        (("containerProperties", "linuxParameters", "initProcesEnabled"), True, "misspelled-field"),
        (("propagateTags",), "yes", "field-type"),
        (("containerProperties", "readonlyRootFilesystem"), "true", "field-type"),
        (("containerProperties", "linuxParameters", "swappiness"), "60", "field-type"),
        (("type",), "Container", "misspelled-value"),
        (("containerProperties", "logConfiguration"), {"logDriver": "cloudwatch"}, "unknown-value"),
    ],
    "batch-eks": [
        (("retryStrateg",), {"attempts": 1}, "misspelled-field"),
        (("eksProperties", "colour"), 1, "unknown-field"),
        (("eksProperties", "podProperties", "hostNetwrk"), True, "misspelled-field"),
        (("schedulingPriority",), "high", "field-type"),
        (("eksProperties", "podProperties", "hostNetwork"), "true", "field-type"),
        (("eksProperties", "podProperties", "containers", 0, "imagePullPolicy"), 1, "field-type"),
        (
            ("retryStrategy",),
            {"attempts": 1, "evaluateOnExit": [{"action": "EXITS"}]},
            "misspelled-value",
        ),
        (("platformCapabilities",), ["ECS"], "unknown-value"),
    ],
    "ecs": [
        (("network_mode",), "host", "misspelled-field"),
        (("containerDefinitions", 0, "colour"), "red", "unknown-field"),
        (
            ("containerDefinitions", 0, "linuxParameters", "capabilitie"),
            {"add": []},
            "misspelled-field",
        ),
        (("requiresCompatibilities",), "EC2", "field-type"),
        (("containerDefinitions", 0, "essential"), "true", "field-type"),
        (("containerDefinitions", 0, "linuxParameters", "maxSwap"), "0", "field-type"),
        (("networkMode",), "hosts", "misspelled-value"),
        (("containerDefinitions", 0, "portMappings"), [{"protocol": "sctp"}], "unknown-value"),
    ],
    "parallelcluster": [
        (("Monitorings",), {}, "misspelled-field"),
        (("HeadNode", "Colour"), "red", "unknown-field"),
        (("Scheduling", "SlurmQueues", 0, "ComputeSettins"), {}, "misspelled-field"),
        (("Tags",), "a", "field-type"),
        (("HeadNode", "Networking", "SubnetId"), 12, "field-type"),
        (("Scheduling", "SlurmQueues", 0, "ComputeResources", 0, "Efa"), True, "field-type"),
        (("Image", "Os"), "ubuntu-2204", "misspelled-value"),
        (("Image", "Os"), "alinux2", "unknown-value"),
        (("Scheduling", "SlurmQueues", 0, "CapacityType"), "ON_DEMAND", "misspelled-value"),
    ],
    "sagemaker-endpoint": [
        (("KmsKey",), "a", "misspelled-field"),
        (("ProductionVariants", 0, "Colour"), "red", "unknown-field"),
        (("ProductionVariants", 0, "RoutingConfg"), {}, "misspelled-field"),
        (("EnableNetworkIsolation",), "true", "field-type"),
        (("ProductionVariants", 0, "EnableSSMAccess"), 1, "field-type"),
        (("ProductionVariants", 0, "RoutingConfig"), {"RoutingStrategy": 1}, "field-type"),
        (
            ("ProductionVariants", 0, "RoutingConfig"),
            {"RoutingStrategy": "random"},
            "misspelled-value",
        ),
        (("ProductionVariants", 0, "AcceleratorType"), "ml.eia3.medium", "unknown-value"),
    ],
    "sagemaker-training": [
        (("StoppingConditions",), {}, "misspelled-field"),
        (("ResourceConfig", "Colour"), "red", "unknown-field"),
        (("OutputDataConfig", "KmsKeyID"), "a", "misspelled-field"),
        (("EnableManagedSpotTraining",), "true", "field-type"),
        (("ResourceConfig", "KeepAlivePeriodInSeconds"), "60", "field-type"),
        (
            ("AlgorithmSpecification", "MetricDefinitions"),
            [{"Name": 1, "Regex": "a"}],
            "field-type",
        ),
        (("AlgorithmSpecification", "TrainingInputMode"), "Fastfile", "misspelled-value"),
        (("AlgorithmSpecification", "TrainingInputMode"), "Stream", "unknown-value"),
    ],
}
MANIFEST = [
    (("meta-data",), {}, "misspelled-field"),
    (("metadata", "colour"), "red", "unknown-field"),
    (("POD", "restartPolicies"), "Never", "misspelled-field"),
    (("POD", "containers", 0, "imagePulPolicy"), "Always", "misspelled-field"),
    (("metadata", "labels"), ["a"], "field-type"),
    (("POD", "hostNetwork"), "true", "field-type"),
    (("POD", "containers", 0, "tty"), 1, "field-type"),
    (("POD", "containers", 0, "livenessProbe"), {"periodSeconds": "ten"}, "field-type"),
    (("POD", "restartPolicy"), "Nevr", "misspelled-value"),
    (("POD", "containers", 0, "imagePullPolicy"), "ifNotPresent", "misspelled-value"),
    (("POD", "dnsPolicy"), "Cluster", "unknown-value"),
    (("POD", "tolerations"), [{"effect": "None"}], "unknown-value"),
]
OWN = {
    "jobset": [(("spec", "failurePolicy", "restartStrategy"), "Recreated", "misspelled-value")],
    "leaderworkerset": [(("spec", "startupPolicy"), "LeaderReadi", "misspelled-value")],
    "mpijob": [(("spec", "mpiImplementation"), "openmpi", "misspelled-value")],
    "pytorchjob": [
        (("spec", "runPolicy", "cleanPodPolicy"), "running", "misspelled-value"),
        (("spec", "runPolicy", "manageBy"), "a", "misspelled-field"),
        (("spec", "elasticPolicy", "nprocPerNode"), 1, "misspelled-field"),
    ],
    "rayjob": [
        (("spec", "rayClusterSpec", "upgradeStrategy"), {"type": "none"}, "misspelled-value")
    ],
}
"""What a custom resource's own definition describes, beside its pods."""
DESCRIBED = [name for name, known in FORMATS.items() if known.fields]


def pod_keys(value, keys=()):
    """The keys of the first pod's spec in a document."""
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        return keys
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    inner = (pod_keys(row, (*keys, key)) for key, row in rows if isinstance(row, (dict, list)))
    return next((found for found in inner if found is not None), None)


def planted(document, keys, value):
    """A copy of a document with a value under keys, and the keys."""
    if keys[0] == "POD":
        keys = (*pod_keys(document), *keys[1:])
    document = copy.deepcopy(document)
    holder = document
    for key in keys[:-1]:
        holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
    holder[keys[-1]] = value
    return document, keys


def specs_of(tmp_path, document):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=1))
    return path, read_specs(path)


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_is_planted_at_three_depths_is_a_finding_at_its_line(tmp_path, name):
    text = write_spec(JOBS.get(name, Job(name="a", roles=(ROLE,))), name)
    document = next(row for row in yaml.safe_load_all(text) if row)
    path, (legal,) = specs_of(tmp_path, document)
    assert legal.faults == ()
    for keys, value, rule in PLANTS.get(name, MANIFEST + OWN.get(name, [])):
        changed, at = planted(document, keys, value)
        path, (spec,) = specs_of(tmp_path, changed)
        rows = [row for row in findings(spec) if row.rule == rule]
        assert len(rows) == len(spec.faults) == 1, (keys, spec.faults)
        assert str(at[-1]) in rows[0].reason
        assert rows[0].fix
        assert rows[0].source == field_table(FORMATS[name].fields).source
        line = path.read_text().split("\n")[rows[0].place.line - 1]
        assert f'"{at[-1]}"' in line or rule.endswith(("type", "value"))


def test_every_format_has_its_fields_described_or_takes_any():
    """The programs that read these pass over what they do not know, and sbatch has its options."""
    others = {"plan", "sbatch", "script", "nxdt", "nemo", "nemo-launcher"}
    assert set(DESCRIBED) == set(FORMATS) - others
    assert JobFormat.__dataclass_fields__["fields"].default == ""


@pytest.mark.parametrize("section", ["spec", "metadata"])
def test_a_section_of_another_type_is_refused_or_found(tmp_path, section):
    document = yaml.safe_load(write_spec(Job(name="a", roles=(ROLE,)), "pod"))
    document[section] = 3
    with pytest.raises(BadInput, match=rf"a.json:\d+: {section} is 3; legal: a mapping"):
        specs_of(tmp_path, document)


def test_a_template_is_of_every_type_and_the_users_own_names_are_free(tmp_path):
    document = yaml.safe_load(write_spec(Job(name="a", roles=(ROLE,)), "pod"))
    document["spec"]["hostNetwork"] = "${NETWORK}"
    document["spec"]["{{ .Values.more }}"] = "1"
    document["metadata"]["labels"] = {"colour": "red", "own": "b"}
    document["spec"]["tolerations"] = None
    _, (spec,) = specs_of(tmp_path, document)
    assert spec.faults == ()
    document["metadata"]["labels"]["count"] = 1
    _, (spec,) = specs_of(tmp_path, document)
    ((path, fault),) = [(row.path, row) for row in spec.faults]
    assert fault.reason == "metadata.labels.count is 1; legal: text"
    assert fault.fix == 'write it as text: "1"'
    assert spec.line_of(path).line > 1


def test_cloudformation_spells_numbers_as_text_and_names_with_capitals(tmp_path):
    container = {"Image": "i", "Vcpus": "4", "Memory": "2048", "Privileged": "true", "Colour": 1}
    properties = {"Type": "container", "ContainerProperties": container}
    row = {"Type": "AWS::Batch::JobDefinition", "Properties": properties}
    _, (spec,) = specs_of(tmp_path, {"Resources": {"Own": row}})
    assert [fault.reason for fault in spec.faults] == [
        "containerProperties.colour is no field of containerProperties"
    ]


def test_a_value_of_a_list_is_one_of_them():
    rows = {
        "OnFailure": [],
        "": [],
        "onfailure": ["perhaps OnFailure"],
        "OnFailur": ["perhaps OnFailure"],
        "Sometimes": ["write a legal one"],
        "v2": ["write a legal one"],
        "${POLICY}": [],
    }
    table = FieldTable("s", {})
    for value, fixes in rows.items():
        faults = list(table.faults({"a": value}, "{=Never|OnFailure|v1|}"))
        assert [fault.fix for fault in faults] == fixes
        assert all('a is "' in fault.reason for fault in faults)
        assert all(fault.reason.endswith("; legal: Never, OnFailure, v1") for fault in faults)
    (fault,) = table.faults({"a": 3}, "{=Never|OnFailure|}")
    assert (fault.rule, fault.reason) == ("field-type", "a is 3; legal: Never, OnFailure")
    lenient = FieldTable("s", {}, is_lenient=True)
    assert list(lenient.faults({"a": "never"}, "{=Never|OnFailure}")) == []


TABLE = FieldTable(
    "s", {"Document": {"count": "integer", "half": "number", "flag": "spelled-boolean"}}
)


@pytest.mark.parametrize(
    ("value", "kind", "is_legal"),
    [
        (1, "integer", True),
        (2.0, "integer", True),
        (2.5, "integer", False),
        (True, "integer", False),
        (float("inf"), "integer", False),
        ("1", "integer", False),
        (0, "number", True),
        (False, "number", False),
        ("TRUE", "spelled-boolean", True),
        ("yes", "spelled-boolean", False),
        ("1e3", "spelled-integer", True),
        ("", "spelled-integer", False),
        ("", "string", True),
        (1, "string", False),
        ([], "string", False),
        (1, "quantity", True),
        ({}, "quantity", False),
        ({}, "any", True),
        ([1], "[integer]", True),
        (1, "[integer]", False),
        ({"a": 1}, "{string}", False),
        ([], "{string}", False),
        ([], "Document", False),
        ({}, "Document", True),
    ],
)
def test_a_value_is_of_its_type(value, kind, is_legal):
    assert (list(TABLE.faults(value, kind)) == []) == is_legal


REQUIRING = FieldTable(
    "s", {"Document": {"count": "integer", "half": "[number]"}}, {"Document": ["count", "half|own"]}
)


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        ({"count": 0, "half": []}, []),
        ({"count": 1, "own": 1}, []),
        ({"half": []}, ["count"]),
        ({"count": None, "half": []}, ["count"]),
        ({"count": 1}, ["half"]),
        ({}, ["count", "half"]),
        ({"counts": 1, "half": []}, []),
        ({"half": [], "{{ .Values.more }}": 1}, []),
        ({"Fn::If": ["a", {}, {}]}, []),
        ({"count": "${COUNT}", "half": "{{ .Values.half }}"}, []),
        (None, []),
        (3, []),
    ],
)
def test_an_object_has_its_required_fields(value, missing):
    """A misspelled one is told by its own rule; a template may have the others."""
    faults = list(REQUIRING.faults(value, "Document"))
    assert [row.keys[-1] for row in faults if row.rule == "missing-field"] == missing


def test_a_missing_field_is_told_by_the_object_that_lacks_it(tmp_path):
    one, two = REQUIRING.faults({}, "Document")
    assert (one.reason, one.fix) == (
        "the document has no count, which is required",
        "add count: a whole number",
    )
    assert two.reason == "the document has neither half nor own, which is required"
    lenient = FieldTable("s", REQUIRING.shapes, REQUIRING.required, is_lenient=True)
    assert not list(lenient.faults({"Count": 1, "Half": []}, "Document"))
    job = Job(name="a", roles=(replace(ROLE, shm_bytes=2**30),))
    document = yaml.safe_load(write_spec(job, "pod"))
    document["spec"]["containers"][0]["volumeMounts"].append({"name": "shm"})
    path, (spec,) = specs_of(tmp_path, document)
    ((fault, line),) = [(row, spec.line_of(row.path).line) for row in spec.faults]
    assert fault.reason == "spec.containers[0].volumeMounts[1] has no mountPath, which is required"
    assert path.read_text().split("\n")[line].strip() == '"name": "shm"'


def test_a_near_name_is_told_and_one_that_stands_too():
    (fault,) = TABLE.faults({"count": 1, "counts": 2}, "Document")
    assert (fault.rule, fault.fix) == ("misspelled-field", "perhaps count, which is stated too")
    (fault,) = TABLE.faults({"x": 1, "half": 2}, "Document")
    assert fault.fix == "take it out; legal there: count, flag"


@pytest.mark.parametrize(
    ("kind", "value", "is_legal"),
    [
        ("integer", 10**400, True),
        ("integer", 2.5, False),
        ("spelled-integer", "12", True),
        ("spelled-integer", "1.0", True),
        ("spelled-integer", "1.5", False),
        ("spelled-integer", "nan", False),
        ("spelled-integer", "1_000", False),
        ("spelled-number", "1.5e3", True),
        ("spelled-number", "inf", False),
    ],
)
def test_a_number_and_its_text_are_of_their_type(kind, value, is_legal):
    table = FieldTable("s", {"Document": {"n": kind}})
    assert (not list(table.faults({"n": value}, "Document"))) is is_legal


def test_a_list_of_a_type_is_said_in_words():
    table = FieldTable("document", {"Top": {"names": "[string]"}})
    (fault,) = table.faults({"names": 1}, "Top")
    assert fault.reason == "names is 1; legal: a list, each item text"
