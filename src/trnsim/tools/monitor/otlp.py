"""Export of neuron-monitor's series to a collector of OpenTelemetry, by opentelemetry-sdk.

Names are those of Prometheus without its suffixes, as in the collector's awscontainerinsight
receiver. Labels of a series become its attributes, labels of the instance those of the resource.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.tools.monitor.metrics import METRICS, Metric
from trnsim.tools.monitor.series import CollectedSeries

_FIX: Final = "pip install 'trnsim[platform]'"


def export(
    collected: CollectedSeries, endpoint: str, period_s: float, exporter: Any = None
) -> Callable[[], None]:
    """Begin to send the series to `endpoint` every `period_s`.

    Args:
        collected: series after the first report, which names the instance.
        endpoint: address of the collector, with scheme and port; ``/v1/metrics`` is added to it.
        period_s: time between two exports.
        exporter: an exporter in place of OTLP over HTTP.

    Returns:
        A function that sends the series a last time and stops the export.

    Raises:
        BadInput: opentelemetry is not installed, or the endpoint is no HTTP address.
    """
    sdk, resources = _load("opentelemetry.sdk.metrics"), _load("opentelemetry.sdk.resources")
    reading = _load("opentelemetry.sdk.metrics.export")
    if exporter is None:
        if not endpoint.startswith(("http://", "https://")):
            raise BadInput(f"--endpoint is {endpoint!r}; legal: http://HOST:PORT or https://...")
        http = _load("opentelemetry.exporter.otlp.proto.http.metric_exporter")
        exporter = http.OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics")
    attributes = {"service.name": "neuron-monitor", **collected.instance}
    provider = sdk.MeterProvider(
        [reading.PeriodicExportingMetricReader(exporter, export_interval_millis=period_s * 1e3)],
        resource=resources.Resource.create(attributes),
    )
    meter = provider.get_meter("trnsim")
    for metric in METRICS.values():
        kind = "counter" if metric.kind == "counter" else "gauge"
        make = getattr(meter, f"create_observable_{kind}")
        make(metric.name, [_observation_callback(metric, collected)], metric.unit, metric.help)
    end: Callable[[], None] = provider.shutdown
    return end


def _observation_callback(metric: Metric, collected: CollectedSeries) -> Callable[[Any], list[Any]]:
    """The callback by which OpenTelemetry asks for the values of a metric."""
    observation = _load("opentelemetry.metrics").Observation

    def values(_: Any) -> list[Any]:
        return [
            observation(series.value, dict(series.labels))
            for series in collected.series
            if series.metric is metric
        ]

    return values


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise BadInput("opentelemetry-sdk is not installed", fix=_FIX) from None
