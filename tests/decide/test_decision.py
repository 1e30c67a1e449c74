"""Decisions survive their file; bad files are refused by name."""

import json

import pytest
from decision_cases import decision

from trnsim.decide.decision import FORMAT, Verdict, read
from trnsim.errors import BadInput


def stored(tmp_path, change):
    """The file of a decision, after `change` has been made to its values."""
    values = json.loads(decision().text())
    change(values)
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(values))
    return path


def test_a_decision_is_read_as_it_was_written(tmp_path):
    path = decision().write(tmp_path / "decision.json")
    assert read(path) == decision()
    assert read(path).workload("chat").verdict is Verdict.PILOT


def test_dollars_follow_from_figures_of_the_file():
    one = decision().workload("chat")
    there, today = one.candidates[0], one.today
    cost = today.usd_per_month * (there.paid_hours * there.price.usd_per_hour)
    cost /= today.paid_hours * today.price.usd_per_hour
    assert there.usd_per_month.p50 == pytest.approx(cost)
    assert there.saving.p50 == pytest.approx(1 - cost / today.usd_per_month)


def test_an_unknown_workload_is_refused_with_those_there_are():
    with pytest.raises(BadInput, match=r"^no workload is called 'Chat'; legal: chat"):
        decision().workload("Chat")


def test_another_format_is_refused(tmp_path):
    path = stored(tmp_path, lambda values: values.update(format=FORMAT + 1))
    with pytest.raises(
        BadInput, match=rf"decision.json:\d+: format is {FORMAT + 1}; legal: {FORMAT}"
    ):
        read(path)


@pytest.mark.parametrize("text", ["[]", "{}", "3", '"decision"'])
def test_other_json_is_no_decision(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BadInput, match="no decision: it has no format"):
        read(path)


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(BadInput, match=r"--output DECISION\.json"):
        read(tmp_path / "none.json")


def changed(*keys, value):
    """The change that sets the value at `keys`."""

    def change(values):
        *outer, last = keys
        for key in outer:
            values = values[key]
        values[last] = value

    return change


@pytest.mark.parametrize(
    ("keys", "value", "legal"),
    [
        (("as_of",), "yesterday", "as_of is 'yesterday'; legal: a day as 2026-11-21"),
        (("draws",), 0, "draws is 0; legal: from 1 to 1,000,000"),
        (("seed",), -1, "seed is -1; legal: whole numbers from 0 on"),
        (("workloads", 0, "kind"), "chat", "kind is 'chat'; legal: train, serve, infer"),
        (("workloads", 0, "volume"), 0, "volume is 0; legal: above 0 and at most 1e+18"),
        (("workloads", 0, "today", "count"), 0, "count is 0; legal: above 0"),
        (("workloads", 0, "today", "usd_per_month"), 0.0, "usd_per_month is 0.0; legal: above 0"),
        (("workloads", 0, "today", "paid_hours"), 1e300, "paid_hours is 1e+300; legal: above 0"),
        (("workloads", 0, "today", "price", "usd_per_hour"), 0, "usd_per_hour is 0; legal"),
        (("workloads", 0, "candidates", 0, "hours", "p90"), 0, "legal: p10, p50 and p90 above 0"),
        (
            ("workloads", 0, "candidates", 0, "error"),
            {"median": 0.1},
            "legal: median and p90, or nothing",
        ),
    ],
)
def test_values_from_which_no_figure_follows_are_refused(keys, value, legal, tmp_path):
    with pytest.raises(BadInput, match=r"decision\.json:\d+: ") as caught:
        read(stored(tmp_path, changed(*keys, value=value)))
    assert legal in str(caught.value)
