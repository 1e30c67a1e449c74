import json
from dataclasses import replace

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.job import Job
from trnsim.jobs.planned import planned_job
from trnsim.jobs.price import price_job
from trnsim.jobs.rules import findings
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

PLANNED = planned_job(
    machine("trn1.32xlarge", 2),
    Layout(tensor=8, data=8, micro_batch=1, global_batch=64, sequence=2048, is_sequence=True),
    model="llama-3.2-1b",
    steps=100,
)
MEETING = ("sbatch", "batch", "sagemaker-training", "job", "jobset", "pytorchjob")
MULTI_NODE = (*MEETING, "hyperpod")


@pytest.mark.parametrize("name", MULTI_NODE)
def test_a_plan_has_its_time_and_bill_in_every_format(name, tmp_path):
    path = tmp_path / f"train{FORMATS[name].suffix}"
    path.write_text(write_spec(PLANNED, name))
    (spec,) = read_specs(path)
    assert spec.format == name
    assert findings(spec) == []
    asked, planned = price_job(spec.job), price_job(PLANNED)
    assert planned.time_s is not None
    assert (asked.time_s, asked.usd) == (planned.time_s, planned.usd)
    assert asked.reasons == ()


@pytest.mark.parametrize("name", MEETING)
def test_the_first_node_is_named_in_every_format(name):
    text = write_spec(PLANNED, name)
    assert "MASTER_ADDR" in text
    if name in ("job", "jobset", "pytorchjob"):  # no shell reads a pod's command
        assert "$MASTER_ADDR" not in text
        assert "$(MASTER_ADDR):29500" in text


def test_one_node_needs_no_head():
    alone = planned_job(machine("trn1.32xlarge"), Layout(tensor=8, data=4), model="m")
    for name in MULTI_NODE:
        assert "MASTER_ADDR" not in write_spec(replace(alone, name="a"), name)


def test_a_format_is_found_by_its_name():
    assert all(
        name == known.name and known.title and known.suffix for name, known in FORMATS.items()
    )


def test_a_template_on_one_line_has_all_its_jobs(tmp_path):
    path = tmp_path / "stack.json"
    tasks = {
        name: {
            "Type": "AWS::ECS::TaskDefinition",
            "Properties": {"ContainerDefinitions": [{"Name": "c", "Image": "i", "Memory": 1024}]},
        }
        for name in ("Second", "First")
    }
    path.write_text(json.dumps({"Resources": tasks}))
    assert [spec.job.name for spec in read_specs(path)] == ["Second", "First"]


def test_a_file_without_a_job_names_what_is_legal(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    with pytest.raises(BadInput, match=r"a\.yaml:1: no spec of a job; legal: "):
        read_specs(path)


@pytest.mark.parametrize("levels", [96, 97, 480, 800])
def test_a_document_of_too_many_levels_is_refused(levels, tmp_path):
    value = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {}},
           "spec": {"containers": [{"name": "c", "image": "i", "command": ["torchrun", "a.py"]}],
                    "extra": {"b": value}}}  # fmt: skip
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    if levels == 96:  # beside the text, the document, spec and extra
        assert [spec.job.name for spec in read_specs(path)] == ["a"]
    else:
        with pytest.raises(BadInput, match=r"pod\.json:1: .*; legal: 100 levels"):
            read_specs(path)


def test_an_unknown_format_is_refused():
    with pytest.raises(BadInput, match="--as is 'word'; legal: "):
        write_spec(Job(), "word")
