"""Prometheus scrapes an exporter: every expression of the pages returns data, and an alert fires.

Its data lies in a folder of the test's own.
"""

import json
import shutil
import threading
import time
import urllib.parse
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isfinite
from pathlib import Path

import pytest
import yaml
from found_programs import (
    TRNSIM,
    exporter,
    fetched,
    free_port,
    kernel,
    printed,
    running,
    upstream,
    wait_for,
)
from guarded import CHAT

from promtool import needs_promtool
from trnsim.decide.guard.dashboard import dashboard as guard_page
from trnsim.decide.guard.limits import limits
from trnsim.grafana import expressions

AWS_PAGE = "aws-neuron-sdk/src/examples/neuron-monitor/neuron-monitor-grafana.json"
ALERT = "NeuronUncorrectedEcc"
WINDOW = "10m"
SHORT = "15s"
"""The alert's window in this test: it ends when the last error lies as far back."""
DEVICE = 3
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed (Debian: prometheus)"
)


class Server(BaseHTTPRequestHandler):
    """A vLLM server's counter of tokens, made up: the guard's page divides by it."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(f"vllm:generation_tokens_total {int(1000 * time.time())}\n".encode())

    def log_message(self, *_):
        """Say nothing on the standard error."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url, place):
        self.url = url
        self.place = place

    def ask(self, path, **query):
        text = fetched(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
        return json.loads(text)["data"] if text else {}

    def values(self, expression):
        """The values of an expression now, as far as they are numbers."""
        found = self.ask("query", query=expression).get("result", [])
        return [value for one in found if isfinite(value := float(one["value"][1]))]

    def firing(self):
        """The labels of alerts that fire."""
        alerts = self.ask("alerts").get("alerts", [])
        return [one["labels"] for one in alerts if one["state"] == "firing"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Prometheus over an exporter and a server, with the alerts that trnsim writes."""
    folder = tmp_path_factory.mktemp("prometheus")
    place = {"TRNSIM_STATE": str(folder / "state"), "TRNSIM_INSTANCE": "trn2.48xlarge"}
    printed(*TRNSIM, "neuron-monitor-prometheus", "--rules", str(folder / "alerts.yml"))
    written = (folder / "alerts.yml").read_text()
    assert f"[{WINDOW}]" in written
    (folder / "short.yml").write_text(written.replace(f"[{WINDOW}]", f"[{SHORT}]"))
    port = free_port()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with ExitStack() as stack:
        for end in (server.server_close, thread.join, server.shutdown):
            stack.callback(end)  # the last one first
        stack.enter_context(kernel(**place))
        exported = stack.enter_context(exporter(**place))
        targets = [urllib.parse.urlsplit(exported).netloc, f"127.0.0.1:{server.server_port}"]
        jobs = [{"targets": targets, "labels": {"workload": CHAT.name}}]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["short.yml"],
            "scrape_configs": [{"job_name": "neuron", "static_configs": jobs}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        stack.enter_context(
            running(
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            )
        )
        found = Prometheus(f"http://127.0.0.1:{port}", place)
        wait_for(lambda: found.values("up") == [1, 1], "two targets that are scraped")
        yield found


def have_data(prometheus, asked):
    """Wait until every expression has data."""
    missing = list(asked)

    def is_complete():
        missing[:] = [each for each in missing if not prometheus.values(each)]
        return not missing

    with suppress(TimeoutError):
        wait_for(is_complete, "data", seconds=60.0)
    assert not missing


@needs_prometheus
def test_every_expression_of_the_page_has_data(prometheus, tmp_path):
    page = tmp_path / "page.json"
    printed(*TRNSIM, "neuron-monitor-prometheus", "--dashboard", str(page))
    asked = expressions(page.read_text())
    assert len(asked) >= 20
    have_data(prometheus, asked)


@needs_prometheus
def test_every_expression_of_the_guards_page_has_data(prometheus):
    asked = expressions(guard_page([limits(CHAT)]))
    assert len(asked) == 11
    have_data(prometheus, asked)


@needs_prometheus
def test_every_expression_of_awss_page_has_data(prometheus):
    asked = expressions(Path(upstream(AWS_PAGE)).read_text())
    assert len(asked) == 21
    have_data(prometheus, asked)


@needs_promtool
def test_promtool_accepts_the_alerts(tmp_path):
    rules = tmp_path / "alerts.yml"
    printed(*TRNSIM, "neuron-monitor-prometheus", "--rules", str(rules))
    assert "SUCCESS" in printed("promtool", "check", "rules", str(rules))


@needs_prometheus
def test_an_alert_fires_when_memory_errors_are_injected_and_ends_after_its_window(prometheus):
    wait_for(
        lambda: len(prometheus.values("hardware_ecc_events_total offset 2s")) == 16 * 4,
        "counters before the fault",
    )
    assert not [one for one in prometheus.firing() if one["alertname"] == ALERT]
    environment = prometheus.place
    printed("env", *(f"{name}={value}" for name, value in environment.items()), *TRNSIM,
            "fault", "hbm-ecc", "--device", str(DEVICE), "--for", "5s")  # fmt: skip
    (fired,) = wait_for(
        lambda: [one for one in prometheus.firing() if one["alertname"] == ALERT], "the alert"
    )
    assert fired["neuron_device_index"] == str(DEVICE)
    wait_for(
        lambda: not [one for one in prometheus.firing() if one["alertname"] == ALERT],
        "the end of the alert",
    )
