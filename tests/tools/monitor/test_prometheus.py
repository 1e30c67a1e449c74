import re
import socket
import urllib.request
from functools import partial

import pytest
from monitored import record

from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import counters
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.metrics import METRICS
from trnsim.tools.monitor.prometheus import serve
from trnsim.tools.monitor.reports import Monitor
from trnsim.tools.monitor.series import CollectedSeries

parser = pytest.importorskip("prometheus_client.parser", reason="extra platform not installed")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def text():
    """What a scrape is answered with after one report."""
    model = instance_model("trn2.48xlarge", 2)
    collected = CollectedSeries()
    collected.add(
        Monitor(ALL_GROUPS, lambda: [record()], lambda _: model, partial(counters, ())).report()
    )
    port = free_port()
    serving = serve(collected, port, "127.0.0.1")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found = answer.read().decode()
    serving.end()
    return found


def samples(text):
    return [one for family in parser.text_string_to_metric_families(text) for one in family.samples]


def test_every_metric_is_scraped_under_its_name(text):
    names = {one.name for one in samples(text)}
    suffix = {"counter": "_total", "info": "_info", "gauge": ""}
    assert {name + suffix[metric.kind] for name, metric in METRICS.items()} <= names
    assert {"execution_status_created", "execution_errors_created"} <= names
    assert {"python_info", "process_start_time_seconds"} <= names


def test_a_sample_has_the_labels_of_its_instance_and_its_own(text):
    (found,) = [
        one
        for one in samples(text)
        if one.name == "execution_status_total" and one.labels["status_type"] == "completed"
    ]
    assert found.value == 10
    assert found.labels["instance_type"] == "trn2.48xlarge"
    assert found.labels["runtime_tag"] == "7"


def test_a_port_that_is_taken_is_named():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot listen on 127.0.0.1 port {port}: another pro"):
            serve(CollectedSeries(), port, "127.0.0.1")


@pytest.mark.parametrize("address", ["..", "a" * 70])
def test_what_is_no_name_of_a_host_is_named(address):
    with pytest.raises(BadInput, match=f"cannot listen on {re.escape(address)} port 0"):
        serve(CollectedSeries(), 0, address)


def test_any_port_that_is_free_is_named():
    serving = serve(CollectedSeries(), 0, "127.0.0.1")
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/metrics", timeout=10) as answer:
        assert answer.status == 200
    serving.end()


def test_an_address_that_is_not_this_machines_is_named():
    with pytest.raises(BadInput, match=r"cannot listen on 192\.0\.2\.1 port 0"):
        serve(CollectedSeries(), 0, "192.0.2.1")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(BadInput, match="prometheus_client is not installed"):
        serve(CollectedSeries(), 0, "127.0.0.1")
