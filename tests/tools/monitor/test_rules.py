"""Rules are checked, and run against made-up series, by Prometheus's own promtool."""

import re

import pytest

from promtool import needs_promtool, promtool, run_rules
from trnsim.tools.monitor.metrics import METRICS
from trnsim.tools.monitor.rules import alerts, rules

NAMES = [one.name for one in alerts()]
MINUTES = 120
FLAT = f"x{MINUTES}"
AT = 'instance="a:8000"'


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path):
    (tmp_path / "alerts.yml").write_text(rules())
    checked = promtool("check", "rules", "alerts.yml", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert f"SUCCESS: {len(NAMES)} rules found" in checked.stdout


def test_the_rules_ask_for_the_exporters_series_alone():
    suffix = {"counter": "_total", "info": "_info", "gauge": ""}
    legal = {name + suffix[metric.kind] for name, metric in METRICS.items()}
    for one in alerts():
        bare = re.sub(r'"[^"]*"|by \([^)]*\)', "", one.expression)
        names = set(re.findall(r"[a-z_]*_[a-z_]+(?=[{\[)])", bare))
        assert names
        assert names <= legal


def series(*, busy="0.5+0x120", uncorrected="0", corrected="0", completed=100, failed=0,
           hardware="0", info=f"1+0{FLAT}", memory=f"1e9+4096{FLAT}"):  # fmt: skip
    """Series of one instance for two hours, a sample a minute; "" leaves one out."""
    device, program = f'{AT},neuron_device_index="3"', f'{AT},runtime_tag="7"'
    given = {
        f"instance_info{{{AT}}}": info,
        f"system_memory_used_bytes{{{AT}}}": memory,
        f'neuroncore_utilization_ratio{{{program},neuroncore="0"}}': busy,
        f'neuroncore_utilization_ratio{{{program},neuroncore="1"}}': f"0+0{FLAT}",
        f'execution_status_total{{{program},status_type="completed"}}': f"0+{completed}{FLAT}",
        f'execution_status_total{{{program},status_type="timed_out"}}': f"0+{failed}{FLAT}",
        f'execution_errors_total{{{program},error_type="hardware"}}': hardware,
        f'hardware_ecc_events_total{{{device},event_type="mem_ecc_uncorrected"}}': uncorrected,
        f'hardware_ecc_events_total{{{device},event_type="sram_ecc_corrected"}}': corrected,
    }
    return [{"series": name, "values": values} for name, values in given.items() if values]


LATE = f"0+0x{MINUTES - 6} 1+0x6"
EARLY = f"0+0x60 1+0x{MINUTES - 60}"
ENDS = f"1+0x{MINUTES - 20}"
"""Prometheus takes a series for gone 5 minutes after its last sample; 20 are enough for 5 more."""


@pytest.mark.slow_but_every(3)
@needs_promtool
@pytest.mark.parametrize(
    ("given", "fires"),
    [
        (series(), set()),
        (series(uncorrected=LATE), {"NeuronUncorrectedEcc"}),
        (series(uncorrected=EARLY), set()),
        (series(corrected=f"0+1{FLAT}"), set()),
        (series(corrected=f"0+2{FLAT}"), {"NeuronCorrectedEcc"}),
        (series(failed=1), set()),
        (series(failed=2), {"NeuronExecutionsFail"}),
        (series(completed=0, failed=0), set()),
        (series(hardware=LATE), {"NeuronHardwareError"}),
        (series(hardware=EARLY), set()),
        (series(busy=f"0.04+0{FLAT}"), {"NeuronCoresIdle"}),
        (series(busy=f"0.06+0{FLAT}"), set()),
        (series(busy=f"0.9+0x{MINUTES - 20} 0+0x20"), set()),
        (series(busy=f"0.9+0x{MINUTES - 40} 0+0x40"), {"NeuronCoresIdle"}),
        (series(memory=f"1e9+0{FLAT}"), {"NeuronExporterStale"}),
        (series(memory=""), set()),
        (series(info=ENDS), {"NeuronExporterGone", "NeuronNothingScraped"}),
    ],
)
def test_a_rule_fires_where_it_should_and_nowhere_else(given, fires, tmp_path):
    expected = {name: [_alert(name)] if name in fires else [] for name in NAMES}
    ran = run_rules(rules(), given, expected, tmp_path, MINUTES)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_one_instance_that_is_gone_is_told_beside_others(tmp_path):
    other = {"series": 'instance_info{instance="b:8000"}', "values": f"1+0{FLAT}"}
    expected = {"NeuronExporterGone": [_alert("NeuronExporterGone")], "NeuronNothingScraped": []}
    ran = run_rules(rules(), [*series(info=ENDS), other], expected, tmp_path, MINUTES)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _alert(name):
    """What promtool expects of an alert that fires: its labels, and its texts as they are read."""
    found = next(one for one in alerts() if one.name == name)
    values = {"instance": "a:8000", "runtime_tag": "7", "neuron_device_index": "3"}
    labels = {label: values[label] for label in found.by}
    where = ", ".join(f"{label} {value}" for label, value in labels.items())
    return {
        "exp_labels": {"severity": found.severity, **labels},
        "exp_annotations": {
            "summary": found.summary + (f" ({where})" if where else ""),
            "action": found.action,
        },
    }
