"""Rules are checked, and run against made-up series, by Prometheus's own promtool."""

import re
from dataclasses import replace
from importlib import import_module

import pytest
import yaml
from guarded import CANDIDATE, CHAT

from promtool import needs_promtool, promtool, run_rules
from trnsim.decide.guard.alerts import COUNTERS, alerts, rate_of, rules, utilisation_of
from trnsim.decide.guard.limits import limits

NAMES = (
    "ThroughputBelowPrediction",
    "CostAboveGpu",
    "UncorrectedEcc",
    "ExecutionErrors",
    "NoMetrics",
)
MINUTES = 120


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kind", ["serve", "train", "infer"])
@pytest.mark.parametrize("name", ["chat", 'a "quoted" \\ name', "{{ braces }}", "ä"])
@needs_promtool
def test_promtool_accepts_the_rules_of_any_name(kind, name, tmp_path):
    found = limits(replace(CHAT, kind=kind, name=name))
    (tmp_path / "alerts.yml").write_text(rules([found]), encoding="utf-8")
    checked = promtool("check", "rules", "alerts.yml", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "SUCCESS: 5 rules found" in checked.stdout


def test_a_rule_names_the_figure_it_is_held_against():
    below, dearer, *_ = alerts(limits(CHAT))
    assert "< 800 and" in below.expression
    assert "less than 800 tokens a second" in below.summary
    assert "< 600 and" in dearer.expression
    assert dearer.severity == "page"


def test_without_a_unit_or_a_saving_the_rules_that_need_them_are_left_out():
    by_hours = alerts(limits(replace(CHAT, volume_unit="gpu_hours")))
    assert [one.name for one in by_hours] == list(NAMES[2:])
    unpriced = replace(CANDIDATE, saving=None, usd_per_month=None)
    assert [one.name for one in alerts(limits(replace(CHAT, candidates=(unpriced,))))] == [
        NAMES[0],
        *NAMES[2:],
    ]


def test_each_workload_has_a_group():
    found = [limits(CHAT), limits(replace(CHAT, name="search"))]
    groups = yaml.safe_load(rules(found))["groups"]
    assert [one["name"] for one in groups] == ["chat", "search"]
    assert {rule["alert"] for one in groups for rule in one["rules"]} == set(NAMES)


COLON, PLAIN = (f"vllm{mark}generation_tokens_total" for mark in ":_")


def series(*, per_s, busy, failed=0, ecc="0", counters=(COLON,)):
    """Series of one instance for two hours, a sample a minute."""
    each_minute = f"0+{per_s * 60}x{MINUTES}"
    flat = f"x{MINUTES}"
    return [
        {"series": 'instance_info{workload="chat"}', "values": f"1+0{flat}"},
        *({"series": f'{one}{{workload="chat"}}', "values": each_minute} for one in counters),
        {"series": 'neuroncore_utilization_ratio{workload="chat"}', "values": f"{busy}+0{flat}"},
        {
            "series": 'execution_status_total{workload="chat",status_type="completed"}',
            "values": f"0+{100 - failed}{flat}",
        },
        {
            "series": 'execution_status_total{workload="chat",status_type="timed_out"}',
            "values": f"0+{failed}{flat}",
        },
        {
            "series": 'hardware_ecc_events_total{workload="chat",neuron_device_index="3",'
            'event_type="mem_ecc_uncorrected"}',
            "values": ecc,
        },
    ]


@pytest.mark.slow_but_every(3)
@needs_promtool
@pytest.mark.parametrize(
    ("given", "fires"),
    [
        (series(per_s=1000, busy=0.9), set()),
        (series(per_s=801, busy=0.9), set()),
        (series(per_s=799, busy=0.9), {"ThroughputBelowPrediction"}),
        (series(per_s=799, busy=0.79), set()),
        (series(per_s=801, busy=0.9, counters=[PLAIN]), set()),
        (series(per_s=799, busy=0.9, counters=[PLAIN]), {"ThroughputBelowPrediction"}),
        # Both count the same: a server that is scraped by both names counts once.
        (series(per_s=799, busy=0.9, counters=[COLON, PLAIN]), {"ThroughputBelowPrediction"}),
        (series(per_s=599, busy=0.9), {"ThroughputBelowPrediction", "CostAboveGpu"}),
        (series(per_s=1000, busy=0.9, failed=2), {"ExecutionErrors"}),
        (series(per_s=1000, busy=0.9, failed=1), set()),
        (series(per_s=1000, busy=0.9, ecc=f"0+0x{MINUTES - 6} 1+0x6"), {"UncorrectedEcc"}),
        (series(per_s=1000, busy=0.9, ecc=f"0+0x60 1+0x{MINUTES - 60}"), set()),
        ([{"series": "up", "values": f"1+0x{MINUTES}"}], {"NoMetrics"}),
    ],
)
def test_a_rule_fires_where_it_should_and_nowhere_else(given, fires, tmp_path):
    expected = {name: [_alert(name)] if name in fires else [] for name in NAMES}
    ran = run_rules(rules([limits(CHAT)]), given, expected, tmp_path, MINUTES)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _alert(name):
    """What promtool expects of an alert that fires: its labels, and its texts as they are read."""
    found = next(one for one in alerts(limits(CHAT)) if one.name == name)
    device = {"neuron_device_index": "3"} if name == "UncorrectedEcc" else {}
    where = " (neuron_device_index 3)" if device else ""
    return {
        "exp_labels": {"severity": found.severity, "workload": "chat", **device},
        "exp_annotations": {"summary": found.summary + where, "action": found.action},
    }


def test_queries_choose_the_series_of_the_workload():
    assert rate_of(limits(CHAT)) == (
        'sum(rate(vllm:generation_tokens_total{workload="chat"}[15m]) or '
        'rate(vllm_generation_tokens_total{workload="chat"}[15m])) / '
        'count(instance_info{workload="chat"})'
    )
    assert rate_of(limits(replace(CHAT, kind="train"))) == (
        'sum(rate(training_tokens_total{workload="chat"}[15m])) / '
        'count(instance_info{workload="chat"})'
    )


def test_the_names_of_the_counter_are_those_that_its_client_writes():
    client = pytest.importorskip("prometheus_client", reason="pip install 'trnsim[platform]'")
    exposition = import_module("prometheus_client.exposition")
    registry = client.CollectorRegistry()
    client.Counter(COLON.removesuffix("_total"), "tokens", registry=registry)
    written = set()
    for asked in ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"):
        encode, _ = exposition.choose_encoder(asked)
        text = encode(registry).decode()
        written |= set(re.findall(r"^(vllm\S+_total) ", text, re.MULTILINE))
    assert written == set(COUNTERS["serve"]) == {COLON, PLAIN}


def test_a_name_in_a_query_is_quoted():
    assert utilisation_of(limits(replace(CHAT, name='a"b\n'))) == (
        'avg(neuroncore_utilization_ratio{workload="a\\"b\\n"})'
    )
