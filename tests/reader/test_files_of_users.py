"""Files of every declared kind, spoiled at random: each is read, or refused with its line.

TRNSIM_FILES says how many of each kind; `make nightly` reads 2,000.
"""

import json
import os
import random
import re
import shutil
import tempfile
import zlib
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import guarded
import pytest
import yaml
from bills import HOUR, text
from mutations import mutated, written
from pilot_cases import pilot_of
from site_cases import write_site

from trnsim.calibrate import logs
from trnsim.decide import decision, inventory
from trnsim.decide.guard.realised import realised_savings
from trnsim.decide.inventory.bill import read_bill
from trnsim.decide.pilot import plan
from trnsim.errors import EmulatorError
from trnsim.estimate import measured
from trnsim.price import with_own_prices
from trnsim.site import site_file
from trnsim.system.fleet import demand_file, reading
from trnsim.system.serve import trace
from trnsim.tools.monitor import config as monitor
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.streams import streams_of
from trnsim.tools.nccom.times import fabric_of, planned_operation
from trnsim.workload import config

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = int(os.environ.get("TRNSIM_FILES", "12"))
TABLE, MAPPING, JSON = ("csv", "yaml", "json", "jsonl", "toml"), ("yaml", "json", "toml"), ("json",)
GUARDED = guarded.decision(guarded.CHAT)
START = datetime(2026, 3, 2, tzinfo=ZoneInfo("UTC"))

ROW = {
    "workload": "chat",
    "model_config": "model.json",
    "kind": "serve",
    "tokens_per_month": 6e9,
    "current_instance": "p5.48xlarge",
    "usd_per_month": 80000,
    "region": "us-east-1",
    "ttft_s": 1,
    "other_clouds": ["azure", "gcp"],
    "portability_needed": "no",
    "as_of": "2026-10-31",
    "batch": 8,
}
BILLED = {
    "workload": "chat",
    "model_config": "model.json",
    "kind": "serve",
    "tag": "team=chat",
    "percentile": 90,
}
PRICES = [
    {"instance": "trn2.48xlarge", "kind": "private", "usd_per_hour": 28, "as_of": "2026-11-01"},
    {"instance": "trn1.*", "kind": "spot", "discount_percent": 20, "as_of": "2026-11-01"},
    {"credit_usd": 1000, "until": "2027-01-01", "note": "given"},
]
SCENARIO = yaml.safe_load("""
name: small
timezone: America/New_York
start: '2026-03-02'
days: 1
fleet: {instance: trn2.48xlarge, ultraserver_chips: 64, buildings: {north: 3, south: 2}, spares: 0,
  usd_per_chip_hour: 1, watts_per_chip: {serving: 400, training: 500, idle: 100}}
planning: {demand: p50, horizon_hours: 12}
services:
  chat: {replica_chips: 64, requests_per_s: 10, drain_s: 5,
    demand: {peak_requests_per_s: 9, weekdays: [1, 1, 1, 1, 1, 0.5, 0.5], p90: 2}}
jobs:
  big: {smallest_chips: 64, largest_chips: 128, tokens_per_s: {'64': 1e3, '640': 1e4}, count: 1}
""")
LATENCY = {"successful": {"mean": 9.0, "median": 9.0, "percentiles": {"p90": 10.0, "p99": 12.0}}}
VLLM = {
    "model_id": "llama",
    "completed": 100,
    "num_prompts": 103,
    "duration": 20.0,
    "output_throughput": 640.0,
    "median_ttft_ms": 125.0,
    "p99_ttft_ms": 400.0,
    "median_tpot_ms": 12.5,
}
GUIDELLM = {
    "benchmarks": [
        {
            "duration": 20.0,
            "worker": {"backend_model": "llama"},
            "metrics": {
                "request_totals": {"successful": 100, "total": 103},
                "output_tokens_per_second": LATENCY,
                "time_to_first_token_ms": LATENCY,
                "inter_token_latency_ms": LATENCY,
            },
        }
    ]
}
MONITOR = {
    "period": "1s",
    "neuron_runtimes": [{"tag_filter": "^train", "metrics": [{"type": "memory_used"}]}],
    "system_metrics": [{"type": "vcpu_usage", "period": "2m"}],
}
STEPS = [{"step": n, "loss": 9 - n / 9, "step_s": 2.0, "model": "m"} for n in range(20)]
REQUESTS = [{"sent_s": n, "ttft_s": 0.5, "e2e_s": 2, "output_tokens": 9} for n in range(60)]
HOURS = [{"time": f"2026-03-02T{n:02}:00", "requests_per_s": n, "p10": 0, "p90": n + 1}
         for n in range(24)]  # fmt: skip
REPORT = [{**HOUR, "resource_tags": json.dumps(HOUR["resource_tags"])}] * 2
MODEL = json.loads((EXAMPLES / "llama-3.1-8b.json").read_text())
TRACE = [
    {"arrival": 0.5, "input": 512, "output": 128},
    {"arrival": 2, "input": 9, "output": 1, "prefix": "a", "prefix_tokens": 4, "after": 1},
]
LAYERS = [
    {"phase": "decode", "batch": 4, "tokens": 1, "past": past, "time_us": past / 5, "part": "head"}
    for past in (511, 2047)
]
MONTHS = [{"month": f"2026-0{n}", "workload": "chat", "usd": 5, "volume": 9} for n in (1, 2)]

QUESTION = "plan layer llama-3.1-8b --on trn1"
QUESTIONS = [
    {"question": QUESTION, "seconds": 0.001, "figure": "time", "instance": "trn1.32xlarge"},
    {"question": QUESTION, "seconds": "2ms"},
]
RATES = [{"line_item_usage_amount": 3.5, "product_instance_type": "trn1.32xlarge", "rate": 900.5}]
TRAINER = {
    "log_history": [
        *({"step": step, "loss": 3.5 - step / 50} for step in range(10, 41, 10)),
        {"step": 40, "train_runtime": 20.0, "train_steps_per_second": 2.0},
    ]
}
REPORTED = {
    "neuron_runtime_data": [
        {"report": {"execution_stats": {"latency_stats": {"device_latency": {"p50": 0.001}}}}}
    ],
    "timestamp": 5,
}
SITE = write_site(Path(tempfile.mkdtemp()) / "site.json")


GROUPS = {"replica_groups": [[[0, 1], [2, 3]]]}
PAIRS = {"src_target_pairs": [[[0, 1], [1, 0], [2, 2]]]}
COUNTS = {"metadata": [{"send_counts": [5], "send_displs": [0], "recv_counts": [5, 5, 5, 5]}]}
STREAMS = {
    "streams": [
        {"operation": "allg", "minbytes": "1KB", "maxbytes": 4096, "stepfactor": 2, "check": True},
        {"datatype": "bf16", "coalesced_cc_size_ratio": [1, 2, 1], "ops_per_iter": 2},
    ]
}


def collective(name, option):
    """A reader of a file of nccom-test, which an option of an operation names."""
    fabric = fabric_of("trn2.48xlarge", 2, 1, 4)
    return lambda path: planned_operation(
        OperationOptions(operation=name, **{option: path}), fabric
    )


def tool_log(path):
    return logs.measurements(path, QUESTION)


KINDS = {
    "own prices": (PRICES, TABLE, with_own_prices),
    "inventory": ([ROW], TABLE, inventory.read),
    "rows beside a bill": ([BILLED], ("models.yaml",), lambda path: inventory.read(_bill(path))),
    "bill": (REPORT, ("csv",), read_bill),
    "bill by months": (MONTHS, TABLE, lambda path: realised_savings(path, GUARDED)),
    "training log": (STEPS, ("csv",), logs.read),
    "log of requests": (REQUESTS, ("csv",), logs.read),
    "vllm": (VLLM, JSON, logs.read),
    "guidellm": (GUIDELLM, JSON, logs.read),
    "questions": (QUESTIONS, TABLE, logs.measurements),
    "bill with rates": (RATES, ("csv",), tool_log),
    "trainer": (TRAINER, JSON, logs.read),
    "profile": ({"nc0": {"summary": [{"total_time": 0.002}]}}, JSON, tool_log),
    "nccom-test": ([{"size(B)": 1024, "time:avg(us)": 58.5}] * 2, JSON, tool_log),
    "neuron-monitor reports": ([REPORTED] * 2, ("json", "jsonl"), tool_log),
    "site": (json.loads(SITE.read_text()), JSON, site_file.read),
    "measured times": (LAYERS, TABLE, measured.read),
    "trace": (TRACE, TABLE, trace.read),
    "demand": (HOURS, TABLE, lambda path: demand_file.read(path, ZoneInfo("UTC"), START, 288)),
    "scenario": (SCENARIO, MAPPING, reading.read),
    "decision": (json.loads(GUARDED.text()), ("json", "yaml"), decision.read),
    "pilot": (json.loads(pilot_of("train").text()), JSON, lambda path: plan.read(path.parent)),
    "neuron-monitor": (MONITOR, MAPPING, monitor.read),
    "config.json": (MODEL, JSON, config.read),
    "replica groups": (GROUPS, MAPPING, collective("allr", "custom_replica_groups")),
    "pairs": (PAIRS, MAPPING, collective("permute", "custom_src_target_pairs")),
    "counts": (COUNTS, MAPPING, collective("allgv", "variable_size_op_metadata")),
    "streams": (
        STREAMS,
        MAPPING,
        lambda path: streams_of(OperationOptions(operation="allr"), path),
    ),
}


def _bill(models):
    path = models.with_name("file.csv")
    path.write_text(text({}))
    return path


@pytest.fixture
def folder(tmp_path):
    shutil.copy(EXAMPLES / "llama-3.1-8b.json", tmp_path / "model.json")
    return tmp_path


def path_of(kind, form, folder):
    return folder / ("pilot.json" if kind == "pilot" else f"file.{form}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_in_every_format(kind, folder):
    content, forms, read = KINDS[kind]
    for form in forms:
        path = path_of(kind, form, folder)
        path.write_text(written(content, form.rpartition(".")[2]))
        assert read(path) is not None


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_spoiled_file_is_read_or_refused_with_its_line(kind, folder):
    content, forms, read = KINDS[kind]
    draw = random.Random(zlib.crc32(kind.encode()))  # noqa: S311  no secret
    for _ in range(COUNT):
        form = draw.choice(forms)
        path = path_of(kind, form, folder)
        path.write_bytes(mutated(content, form.rpartition(".")[2], draw))
        try:
            read(path)
        except EmulatorError as error:
            assert re.search(rf"{re.escape(str(path))}:\d+: ", error.reason), error  # noqa: PT017
            assert error.line.file == str(path)  # noqa: PT017
