import runpy
import sys
from pathlib import Path

from trnsim.jobs.field_types import field_table

MAKER = Path(__file__).parents[2] / "docs" / "makers" / "job_fields.py"


def test_the_fields_of_aws_are_those_of_its_description(monkeypatch):
    """A newer botocore may have more."""
    monkeypatch.setattr(sys, "argv", ["job_fields"])
    maker = runpy.run_path(str(MAKER))
    files = list(maker["aws"]())
    assert len(files) == 4
    for name, source, shapes, required in files:
        assert source.startswith("botocore ")
        table = field_table(name)
        assert table.source.startswith("botocore ")
        assert table.shapes.keys() <= shapes.keys()
        for shape, fields in table.shapes.items():
            assert fields.items() <= shapes[shape].items(), (name, shape)
        own = maker["with_own"](name, required)
        assert {shape: own[shape] for shape in table.required} == table.required


def test_a_definition_becomes_shapes():
    fields = runpy.run_path(str(MAKER))["KubernetesFields"]({})
    row = {
        "properties": {
            "count": {"type": ["integer", "null"]},
            "size": {"x-kubernetes-int-or-string": True},
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "filled": {"type": "string", "default": "a"},
        },
        "required": ["count", "filled"],
    }
    assert fields.type_of(row, "policy") == "Policy"
    assert fields.shapes["Policy"] == {
        "count": "integer",
        "size": "quantity",
        "names": "[string]",
        "labels": "{string}",
        "free": "any",
        "filled": "string",
    }
    assert fields.required == {"Policy": ["count"]}
    without = {key: value for key, value in row.items() if key != "required"}
    assert fields.type_of(without, "policy") == "Policy_"
