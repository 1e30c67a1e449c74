"""A stored report with a value that cannot be shown is refused by the name of the value."""

import copy
import json

import pytest

from trnsim.errors import BadInput
from trnsim.profile import load, report_of

SUMMARY = ("summary",)
MODEL = {
    "time_ns": 2.0,
    "device_ns": 1.0,
    "exchanges_ns": 0.0,
    "bound_ns": 1.0,
    "binds": "HBM",
    "mfu": 0.1,
    "mbu": 0.2,
    "layers": 0,
    "compiled": 0,
    "modules": [],
    "operations": [],
    "engines": [],
    "traffic": [],
}


@pytest.fixture
def report(timeline, ran):
    return report_of([ran(timeline)])


def stored(report, folder, *keys, value):
    """The file of a report whose profile has `value` at `keys`."""
    changed = copy.deepcopy(report)
    place = changed["profiles"][0]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path = folder / "matmul.json"
    path.write_text(json.dumps(changed, separators=(",", ":")))
    return path


@pytest.mark.parametrize(
    ("keys", "value", "text"),
    [
        (("kernel",), 3, "kernel is 3; legal: text"),
        (("warnings",), 3, "warnings is 3; legal: a list"),
        ((*SUMMARY, "total_time_s"), None, "summary.total_time_s is missing; legal: a number"),
        ((*SUMMARY, "bound_by"), 3, "summary.bound_by is 3; legal: text"),
        ((*SUMMARY, "engines", 0), {}, "engine is missing; legal: text"),
        ((*SUMMARY, "instructions"), 1e40, "is 1e+40; legal: numbers up to 1e+30"),
        ((*SUMMARY, "metrics", "total_time"), "long", "total_time is 'long'"),
        ((*SUMMARY, "extra"), 3, "summary.extra' is not known"),
        ((*SUMMARY, "conditions", "order"), "any", "legal: transfers by hardware, software or"),
        ((*SUMMARY, "conditions", "transfers"), {"any": 3}, "legal: transfers by hardware"),
        (("lines", 0, "text"), 3, "text is 3; legal: text"),
        (("by_line", 0, "line"), 99, "line is 99; legal: -1 for no line, or below "),
        (("by_line", 0, "line"), 0.0, "line is 0.0; legal: -1 for no line, or below "),
        (("by_line", 0, "critical_ns"), "3 s", "critical_ns is '3 s'; legal: a number"),
        (("advice",), [{"line": 0}], "text is missing; legal: text"),
        (("edges",), [3], "legal: a mapping of fields: "),
        (("model",), {**MODEL, "mfu": "high"}, "model.mfu is 'high'; legal: a number"),
        (("model",), {**MODEL, "modules": [{"path": "a"}]}, "own_ns is missing"),
    ],
)
def test_a_value_that_is_not_legal_is_refused_by_its_name(keys, value, text, report, tmp_path):
    with pytest.raises(BadInput, match=r"matmul\.json:1: ") as caught:
        load(stored(report, tmp_path, *keys, value=value))
    assert text in str(caught.value)


def test_an_edge_has_all_its_times_or_none(report, tmp_path):
    edge = {"form": "depends_on", "kind": "runtime", "text": "a, b", "line": -1, "edges": 1}
    times = {"with_ns": 2.0, "without_ns": 1.0, "gain_ns": -1.0}
    for row in (edge, {**edge, **times}):
        path = stored(report, tmp_path, "edges", value=[row])
        assert load(path)["profiles"][0]["edges"] == [row]
    with pytest.raises(BadInput, match="legal: with_ns, without_ns and gain_ns, or none of them"):
        load(stored(report, tmp_path, "edges", value=[{**edge, "gain_ns": 1.0}]))


def test_a_model_is_read_as_it_was_written(report, tmp_path):
    path = stored(report, tmp_path, "model", value=MODEL)
    assert load(path)["profiles"][0]["model"] == MODEL


@pytest.mark.parametrize("title", [None, 3, []])
def test_a_report_without_a_title_is_refused(title, report, tmp_path):
    path = tmp_path / "matmul.json"
    path.write_text(json.dumps({**report, "title": title}))
    with pytest.raises(BadInput, match=r"title is .*; legal: text"):
        load(path)
