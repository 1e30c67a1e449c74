import json
import re
from functools import partial

import pytest
from monitored import record

from promtool import check_promql, needs_promtool, run_rules
from trnsim.alert_rules import Alert, rule_file
from trnsim.grafana import expressions
from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import counters
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.dashboard import dashboard
from trnsim.tools.monitor.metrics import METRICS
from trnsim.tools.monitor.prometheus import Exporter
from trnsim.tools.monitor.reports import Monitor
from trnsim.tools.monitor.series import CollectedSeries

pytest.importorskip("prometheus_client", reason="extra platform not installed")
SUFFIX = {"counter": "_total", "info": "_info", "gauge": ""}
NAMES = {name + SUFFIX[metric.kind]: metric for name, metric in METRICS.items()}


def scraped():
    """What the exporter says of an instance with one program, as promtool's input."""
    collected = CollectedSeries()
    model = instance_model("trn2.48xlarge", 2)
    monitor = Monitor(ALL_GROUPS, lambda: [record()], lambda _: model, partial(counters, ()))
    collected.add(monitor.report())
    for family in Exporter(collected).collect():
        for one in family.samples:
            labels = {**one.labels, "instance": "a:8000", "job": "neuron"}
            chosen = ",".join(f'{name}="{value}"' for name, value in labels.items())
            yield {"series": f"{one.name}{{{chosen}}}", "values": f"{one.value}+0x10"}


def test_the_page_shows_what_platform_teams_ask_for():
    titles = [one["title"] for one in json.loads(dashboard())["panels"]]
    assert titles == [
        "NeuronCores",
        "Utilisation of each core",
        "Mean utilisation of a program's cores",
        "Cores in use",
        "Memory",
        "Memory of the devices by category",
        "Memory of each core",
        "Memory of a program",
        "Executions",
        "Executions a second",
        "Errors a second",
        "Latency of an execution",
        "Errors of the hardware",
        "ECC events by kind",
        "Uncorrected ECC events by device",
        "Host",
        "vCPUs of the host",
        "vCPUs of a program",
        "Memory of the host",
    ]


def test_every_expression_and_its_legend_have_names_and_labels_of_the_exporter():
    labels = {one["series"].partition("{")[0]: set(re.findall(r'(\w+)="', one["series"]))
              for one in scraped()}  # fmt: skip
    for panel in json.loads(dashboard())["panels"]:
        for target in panel.get("targets", ()):
            said = re.sub(r'"[^"]*"|\[\w+\]', "", target["expr"])
            asked = set(re.findall(r"[a-z_]{12,}(?=\{)", said))
            if "__name__" in target["expr"]:
                asked = {"neuroncore_memory_usage_tensors"}
            (name,) = asked
            assert name in NAMES
            grouped = re.search(r"by \(([^)]*)\)", said)[1].split(", ")
            assert set(re.findall(r"(\w+)(?:=|!=)", said)) - {"__name__"} <= labels[name]
            assert set(grouped) <= labels[name]
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) == set(grouped)
            assert ("rate(" in said) <= (NAMES[name].kind == "counter")


@needs_promtool
def test_every_expression_is_promql(tmp_path):
    check_promql(expressions(dashboard()), tmp_path)


@needs_promtool
def test_every_expression_finds_what_the_exporter_says(tmp_path):
    found = expressions(dashboard())
    empty = [Alert(f"E{index}", f"absent({one})", 0, "info", "", "")
             for index, one in enumerate(found)]  # fmt: skip
    text = rule_file([("empty", empty)])
    ran = run_rules(text, list(scraped()), {one.name: [] for one in empty}, tmp_path, 10)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_reader_chooses_instances_and_then_their_programs():
    _, instance, program = json.loads(dashboard())["templating"]["list"]
    assert instance["query"] == "label_values(instance_info, instance)"
    assert program["query"].startswith('label_values(execution_status_total{instance=~"$instance"}')
