import json
import time

import pytest

from trnsim.instance.state import pods
from trnsim.instance.state.pods import PodTable, PodUse

TABLE = PodTable(15.0, {"0": PodUse("p", "n", ("c",))}, {"0": PodUse("p", "n", ("c",))})


def test_a_table_is_in_the_fields_of_a_report(tmp_path):
    pods.store(tmp_path, TABLE, 15.0)
    use = {"pod_name": "p", "namespace": "n", "container_name": ["c"]}
    assert pods.stored_pods(tmp_path) == {
        "period": 15.0,
        "neuroncores_k8s_info": {"0": use},
        "neurondevices_k8s_info": {"0": use},
        "error": "",
    }


def test_a_table_holds_for_three_periods(tmp_path, monkeypatch):
    now_s = time.time()
    pods.store(tmp_path, TABLE, 15.0)
    monkeypatch.setattr(time, "time", lambda: now_s + 44)
    assert pods.stored_pods(tmp_path)
    monkeypatch.setattr(time, "time", lambda: now_s + 47)
    assert pods.stored_pods(tmp_path) is None


def test_a_short_period_holds_for_five_seconds(tmp_path, monkeypatch):
    now_s = time.time()
    pods.store(tmp_path, TABLE, 0.1)
    monkeypatch.setattr(time, "time", lambda: now_s + 4)
    assert pods.stored_pods(tmp_path)


def test_a_removed_table_is_none(tmp_path):
    pods.store(tmp_path, TABLE, 15.0)
    pods.remove(tmp_path)
    pods.remove(tmp_path)
    assert pods.stored_pods(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "1", '{"until": "soon"}', '{"until": 1e12}', "[" * 100_000, "\x00"],
    ids=["empty", "list", "none", "number", "text", "cut", "deep", "nul"],
)
def test_what_is_no_table_is_none(tmp_path, content):
    (tmp_path / "pods.json").write_text(content)
    assert pods.stored_pods(tmp_path) is None


def test_the_file_has_no_more_than_the_table(tmp_path):
    pods.store(tmp_path, TABLE, 15.0)
    row = json.loads((tmp_path / "pods.json").read_text())
    assert row.keys() == {*vars(TABLE)}
