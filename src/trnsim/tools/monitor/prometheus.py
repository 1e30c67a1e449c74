"""``neuron-monitor-prometheus``: the series of neuron-monitor over HTTP, through prometheus_client.

Counters have ``_created`` series in formats that know them. Series of this process stand beside
them (``process_*``, ``python_*``), as with AWS's script.
"""

from __future__ import annotations

import errno
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from trnsim.errors import BadInput
from trnsim.tools.monitor.metrics import Metric, Series
from trnsim.tools.monitor.scrape_server import ScrapeServer
from trnsim.tools.monitor.series import CollectedSeries

_FIX = "pip install 'trnsim[platform]'"


class Exporter:
    """A collector of prometheus_client over the last report."""

    def __init__(self, collected: CollectedSeries) -> None:
        self.collected = collected

    def collect(self) -> Iterator[Any]:
        """A family for each metric that has a value."""
        by_metric: dict[Metric, list[Series]] = defaultdict(list)
        for series in self.collected.series:
            by_metric[series.metric].append(series)
        for metric, metric_series in by_metric.items():
            yield _family(metric, metric_series, self.collected.instance)


@dataclass(frozen=True)
class ScrapeService:
    """A running server of scrapes.

    Attributes:
        port: the port on which it listens; the system's choice for port 0.
        end: stops the server.
    """

    port: int
    end: Callable[[], None]


def serve(collected: CollectedSeries, port: int, address: str) -> ScrapeService:
    """Answer scrapes on `address` and `port` from now on.

    Raises:
        BadInput: prometheus_client is not installed, or the server cannot listen at the port.
    """
    client = _client()
    registry = client.CollectorRegistry()
    for collector in (client.PROCESS_COLLECTOR, client.PLATFORM_COLLECTOR, client.GC_COLLECTOR):
        registry.register(collector)
    registry.register(Exporter(collected))
    try:
        server = ScrapeServer(address, port, client.make_wsgi_app(registry))
    except (OSError, OverflowError, UnicodeError) as error:  # UnicodeError: no name of a host
        is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
        reason = "another program has it" if is_taken else str(error)
        raise BadInput(
            f"cannot listen on {address} port {port}: {reason}",
            fix="name another port with --port (0 for any that is free), or another --address",
        ) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return ScrapeService(server.server_port, end)


def _family(metric: Metric, metric_series: list[Series], instance: dict[str, str]) -> Any:
    core = import_module("prometheus_client.metrics_core")
    is_counter = metric.kind == "counter"
    # An info is written as a gauge: it has no type of its own in the older format.
    name = f"{metric.name}_info" if metric.kind == "info" else metric.name
    family_class = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
    family = family_class(name, metric.help, labels=[*instance, *metric_series[0].labels])
    for series in metric_series:
        created = {"created": series.since_s} if is_counter else {}
        family.add_metric([*instance.values(), *series.labels.values()], series.value, **created)
    return family


def _client() -> Any:
    try:
        return import_module("prometheus_client")
    except ImportError:
        raise BadInput("prometheus_client is not installed", fix=_FIX) from None
