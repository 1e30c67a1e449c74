import json
from pathlib import Path

import pytest
from aws_cases import problems

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs
from trnsim.jobs.formats.batch_request import apply_request
from trnsim.jobs.price import price_job
from trnsim.jobs.rules import findings

SPECS = Path(__file__).parent / "specs"
API = ("batch", "SubmitJob")
NAME = {"jobName": "a", "jobQueue": "q", "jobDefinition": "pretrain:3"}
MIB = 2**20


def submit(folder, definition="batch_nodes.json", **fields):
    """The first spec of a definition, as a request submits it."""
    path = folder / "submit.json"
    request = NAME | fields
    path.write_text(json.dumps(request, indent=1))
    return apply_request(read_specs(SPECS / definition), path)[0]


@pytest.mark.parametrize("name", ["pretrain", "pretrain:3", "arn:aws:batch:r:1:a/pretrain:3"])
def test_the_size_of_an_array_is_the_number_of_copies(tmp_path, name):
    fields = {"jobDefinition": name, "arrayProperties": {"size": 10}}
    assert problems(NAME | fields, *API) == []
    spec = submit(tmp_path, **fields)
    assert (spec.job.copies, spec.line_of("copies").file) == (10, str(tmp_path / "submit.json"))
    assert spec.line_of("copies").line == 6
    assert spec.line_of("roles.0.devices").file.endswith("batch_nodes.json")


def test_an_array_costs_as_many_jobs(tmp_path):
    one = price_job(submit(tmp_path).job)
    ten = price_job(submit(tmp_path, arrayProperties={"size": 10}).job)
    assert one.usd is not None
    assert ten.usd.p50 == pytest.approx(10 * one.usd.p50)


def test_a_request_overrides_nodes_and_containers(tmp_path):
    override = {
        "command": ["torchrun", "--nproc-per-node=2", "b.py"],
        "environment": [{"name": "A", "value": "b"}, {"name": "FI_PROVIDER", "value": "tcp"}],
        "instanceType": "trn1n.32xlarge",
        "resourceRequirements": [{"type": "VCPU", "value": "8"}, {"type": "MEMORY", "value": "9"}],
    }
    fields = {
        "timeout": {"attemptDurationSeconds": 60},
        "nodeOverrides": {
            "numNodes": 5,
            "nodePropertyOverrides": [{"targetNodes": "0:2", "containerOverrides": override}],
        },
    }
    assert problems(NAME | fields, *API) == []
    spec = submit(tmp_path, **fields)
    first, second = spec.job.roles
    assert (first.replicas, second.replicas, spec.job.time_limit_s) == (3, 2, 60.0)
    assert first.environment == (("FI_PROVIDER", "tcp"), ("A", "b"))
    assert (first.command[-1], first.processes, first.instance) == ("b.py", 2, "trn1n.32xlarge")
    assert (first.vcpus, first.memory_bytes, first.efa) == (8.0, 9 * MIB, 2)
    assert spec.line_of("roles.0.command").file.endswith("submit.json")
    assert [value.field for value in spec.templates] == ["roles.0.image"]


def test_a_request_overrides_the_pod(tmp_path):
    container = {
        "args": ["other.py"],
        "resources": {"limits": {"aws.amazon.com/neuron": "8"}},
        "env": [{"name": "A", "value": "b"}],
    }
    fields = {"eksPropertiesOverride": {"podProperties": {"containers": [container]}}}
    spec = submit(tmp_path, "batch_eks.json", jobDefinition="tune", **fields)
    (own,) = spec.job.roles
    assert problems(NAME | fields, *API) == []
    assert (own.devices, own.command, own.vcpus) == (8, ("other.py",), 16.0)
    assert own.environment == (("FI_PROVIDER", "efa"), ("A", "b"))


@pytest.mark.parametrize(("parameters", "rate"), [({}, "0.1"), ({"rate": "0.5", "b": "c"}, "0.5")])
def test_parameters_stand_for_references(tmp_path, parameters, rate):
    spec = submit(tmp_path, "batch_eks.json", jobDefinition="tune", parameters=parameters)
    assert spec.job.roles[0].command[-2:] == ("--lr", rate)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"arrayProperties": {"size": 1}}, "6: arrayProperties.size is 1; legal: 2 to 10,000"),
        ({"arrayProperties": {"size": 10_001}}, "6: .*size is 10001; legal: 2 to 10,000"),
        ({"arrayProperties": {"size": "many"}}, "6: .*size is 'many'; legal: a whole number"),
        ({"timeout": {"attemptDurationSeconds": 59}}, "6: .* is 59; legal: a whole number from 60"),
        ({"jobDefinition": "other"}, "4: jobDefinition is 'other'; legal: pretrain"),
        ({"nodeOverrides": {"numNodes": 3}}, "6: .*numNodes is 3; legal: 4 or more, as other ran"),
        (
            {"nodeOverrides": {"nodePropertyOverrides": [{"targetNodes": "7:"}]}},
            "8: .*targetNodes is '7:'; legal: 0:2, 3:3",
        ),
        (
            {"nodeOverrides": {"nodePropertyOverrides": [{"targetNodes": "main"}]}},
            "8: .*targetNodes is 'main'; legal: 0:2, 3:3",
        ),
        ({"arrayProperties": 5}, "5: arrayProperties is 5; legal: a mapping"),
        ({"nodeOverrides": []}, "5: nodeOverrides is .*; legal: a mapping"),
        ({"parameters": "rate=1"}, "5: parameters is 'rate=1'; legal: a mapping"),
        ({"timeout": 60}, "5: timeout is 60; legal: a mapping"),
        ({"containerOverrides": 1}, "5: containerOverrides is 1; legal: a mapping"),
    ],
)
def test_a_malformed_request_is_refused_at_its_line(tmp_path, fields, why):
    with pytest.raises(BadInput, match=rf"submit\.json:{why}"):
        submit(tmp_path, **fields)


@pytest.mark.parametrize(
    ("fields", "rule", "line", "words"),
    [
        ({"timeOut": {}}, "misspelled-field", 5, "perhaps timeout"),
        ({"colour": 1}, "unknown-field", 5, "take it out; legal there: arrayProperties"),
        ({"schedulingPriorityOverride": "9"}, "field-type", 5, "write a whole number"),
        ({"dependsOn": [{"jobId": "a", "type": "N_TO_M"}]}, "misspelled-value", 8, "N_TO_N"),
        ({"dependsOn": [{"jobId": "a", "type": "ALL"}]}, "unknown-value", 8, "a legal one"),
        (
            {"containerOverrides": {"environments": []}},
            "misspelled-field",
            6,
            "perhaps environment",
        ),
        (
            {
                "nodeOverrides": {
                    "nodePropertyOverrides": [{"targetNode": "0:", "targetNodes": ":"}]
                }
            },
            *("misspelled-field", 8, "perhaps targetNodes, which is stated too"),
        ),
        (
            {"eksPropertiesOverride": {"podProperties": {"containers": [{"imag": "b"}]}}},
            *("misspelled-field", 9, "perhaps image"),
        ),
    ],
)
def test_a_field_of_a_request_is_as_the_api_describes_it(tmp_path, fields, rule, line, words):
    values = json.loads((SPECS / "batch_nodes.json").read_text())
    values["nodeProperties"]["nodeRangeProperties"][1:] = []
    values["nodeProperties"]["nodeRangeProperties"][0]["targetNodes"] = "0:"
    path = tmp_path / "one.json"
    path.write_text(json.dumps(values))
    (row,) = [row for row in findings(submit(tmp_path, path, **fields)) if row.rule == rule]
    assert row.place == (str(tmp_path / "submit.json"), line)
    assert words in row.fix
    assert row.source.startswith("botocore")


def test_a_request_as_the_api_has_it_and_its_definition_have_no_fault(tmp_path):
    fields = {
        "shareIdentifier": "a", "schedulingPriorityOverride": 9, "propagateTags": True,
        "dependsOn": [{"jobId": "a", "type": "N_TO_N"}], "tags": {"own": "b"},
        "retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "RETRY"}]},
    }  # fmt: skip
    assert problems(NAME | fields, *API) == []
    assert submit(tmp_path, **fields).faults == ()


@pytest.mark.parametrize(("target", "is_legal"), [
    ("0:", True), (":", True), (":3", True), ("3:", True),
    ("4:", False), ("", False), ("0", False), ("x:", False), ("0:3:4", False),
])  # fmt: skip
def test_a_range_within_the_only_one_is_its_role(tmp_path, target, is_legal):
    values = json.loads((SPECS / "batch_nodes.json").read_text())
    values["nodeProperties"]["nodeRangeProperties"][1:] = []
    values["nodeProperties"]["nodeRangeProperties"][0]["targetNodes"] = "0:"
    path = tmp_path / "one.json"
    path.write_text(json.dumps(values))
    override = {"targetNodes": target, "containerOverrides": {"command": ["a"]}}
    fields = {"nodeOverrides": {"nodePropertyOverrides": [override]}}
    if is_legal:
        assert submit(tmp_path, path, **fields).job.roles[0].command == ("a",)
        return
    with pytest.raises(BadInput, match=r"targetNodes is '.*'; legal: 0:3"):
        submit(tmp_path, path, **fields)


def test_a_single_container_has_no_nodes(tmp_path):
    with pytest.raises(BadInput, match="legal: none, as the definition is of a single container"):
        submit(tmp_path, "batch_eks.json", jobDefinition="tune", nodeOverrides={"numNodes": 2})


def test_another_file_is_no_request(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    with pytest.raises(BadInput, match=r"a\.json:1: no SubmitJob request"):
        apply_request([], path)


def test_a_request_alone_is_no_job(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(NAME))
    with pytest.raises(BadInput, match="is no job without its definition") as error:
        read_specs(path)
    assert error.value.fix == "trnsim job check DEFINITION --submit a.json"
