import json
from dataclasses import replace

from guarded import CANDIDATE, CHAT

from promtool import check_promql, needs_promtool
from trnsim.decide.guard.dashboard import dashboard
from trnsim.decide.guard.limits import limits
from trnsim.grafana import expressions


def page(*workloads):
    return json.loads(dashboard([limits(one) for one in workloads]))


def test_a_workload_has_a_row_and_no_panel_lies_on_another():
    panels = page(CHAT, replace(CHAT, name="search"))["panels"]
    assert [one["title"] for one in panels if one["type"] == "row"] == [
        "chat on trn1.32xlarge",
        "search on trn1.32xlarge",
    ]
    places = set()
    for one in panels:
        at = one["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places
        assert at["x"] + at["w"] <= 24
        places |= cells
    assert [one["id"] for one in panels] == list(range(1, len(panels) + 1))


def test_the_promise_stands_beside_what_is_counted():
    lines = {
        target["legendFormat"]: target["expr"]
        for panel in page(CHAT)["panels"]
        for target in panel.get("targets", ())
    }
    assert lines["predicted P50"].startswith("vector(1000)") or "vector(16.6667)" in lines.values()
    assert lines["slowest predicted"] == "vector(800)"
    assert lines["costs as much as today"] == "vector(600)"
    assert lines["today"] == f"vector({100_000 / 3.6e9 * 1e6:.6g})"


def test_without_rates_and_prices_the_panels_of_health_are_left():
    titles = [one["title"] for one in page(replace(CHAT, volume_unit="gpu_hours"))["panels"]]
    assert "Memory errors" in titles
    assert not any("second of an instance" in title or "USD" in title for title in titles)
    unpriced = replace(CANDIDATE, price=None, usd_per_month=None, saving=None)
    cost = next(
        one
        for one in page(replace(CHAT, candidates=(unpriced,)))["panels"]
        if one["title"].startswith("USD")
    )
    assert [one["legendFormat"] for one in cost["targets"]] == ["today"]


@needs_promtool
def test_every_expression_is_promql(tmp_path):
    found = expressions(dashboard([limits(CHAT)]))
    assert len(found) == 11
    check_promql(found, tmp_path)
