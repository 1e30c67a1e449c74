from functools import partial

import pytest
from monitored import record

from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import counters
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.metrics import METRICS
from trnsim.tools.monitor.otlp import export
from trnsim.tools.monitor.reports import Monitor
from trnsim.tools.monitor.series import CollectedSeries

memory = pytest.importorskip(
    "opentelemetry.sdk.metrics.export", reason="the extra platform is not installed"
)


class Kept(memory.MetricExporter):
    """An exporter that keeps what it is given."""

    def __init__(self):
        super().__init__()
        self.found = []

    def export(self, metrics_data, *_, **__):
        self.found.append(metrics_data)
        return memory.MetricExportResult.SUCCESS

    def force_flush(self, *_, **__):
        return True

    def shutdown(self, *_, **__):
        pass


@pytest.fixture(scope="module")
def collected():
    model = instance_model("trn2.48xlarge", 2)
    found = CollectedSeries()
    found.add(
        Monitor(ALL_GROUPS, lambda: [record()], lambda _: model, partial(counters, ())).report()
    )
    return found


def test_every_series_is_exported_with_its_value(collected):
    kept = Kept()
    export(collected, "", 3600.0, kept)()
    resource = kept.found[0].resource_metrics[0]
    metrics = {one.name: one for one in resource.scope_metrics[0].metrics}
    assert set(metrics) == set(METRICS)
    assert resource.resource.attributes["instance_type"] == "trn2.48xlarge"
    points = metrics["execution_status"].data.data_points
    by_status = {one.attributes["status_type"]: one.value for one in points}
    assert by_status["completed"] == 10
    exported = sum(len(one.data.data_points) for one in metrics.values())
    assert exported == len(collected.series)


def test_an_endpoint_that_is_no_http_address_is_refused(collected):
    with pytest.raises(BadInput, match="--endpoint is 'localhost:4318'; legal: http://HOST:PORT"):
        export(collected, "localhost:4318", 5.0)


def test_without_the_library_the_extra_is_named(collected, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.metrics", None)
    with pytest.raises(BadInput, match="opentelemetry-sdk is not installed"):
        export(collected, "http://127.0.0.1:1", 5.0)
