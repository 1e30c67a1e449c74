"""JSON of load tests: ``vllm bench serve --save-result``, and the report of guidellm.

Sources: docs.vllm.ai, cli/bench/serve (duration, completed, output_throughput, median_ttft_ms);
github.com/vllm-project/guidellm, docs (benchmarks, each with metrics by status, each of them a
distribution with mean, median and percentiles).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trnsim.decide.pilot.logs.measured import Load, Measured, load
from trnsim.reader import Foreign, Place, declared, record

_S_PER_MS: Final = 1e-3


def _ms(what: str) -> Any:
    return declared(help=what, unit="ms")


def _ms_or_none(what: str) -> Any:
    return declared(None, help=what, unit="ms")


@dataclass(frozen=True, kw_only=True)
class VllmFields(Foreign):
    """The JSON of ``vllm bench serve``."""

    completed: int = declared(help="requests that were finished", least=0)
    num_prompts: int | None = declared(None, help="requests that were sent", least=0)
    duration: float = declared(help="time of the test", unit="s")
    output_throughput: float = declared(help="rate of the server", unit="tokens/s")
    median_ttft_ms: float = _ms("time to the first token, P50")
    p90_ttft_ms: float | None = _ms_or_none("P90")
    p99_ttft_ms: float | None = _ms_or_none("P99")
    median_tpot_ms: float = _ms("time between the further tokens, P50")
    p90_tpot_ms: float | None = _ms_or_none("P90")
    p99_tpot_ms: float | None = _ms_or_none("P99")
    model_id: str = declared("", help="the model")


@dataclass(frozen=True, kw_only=True)
class RanksFields(Foreign):
    """Percentiles of a distribution of guidellm."""

    p90: float | None = _ms_or_none("P90")
    p99: float | None = _ms_or_none("P99")


@dataclass(frozen=True, kw_only=True)
class LatencyFields(Foreign):
    """A distribution of a latency."""

    median: float = _ms("P50")
    percentiles: RanksFields = declared(help="further percentiles")


@dataclass(frozen=True, kw_only=True)
class LatencyByStatus(Foreign):
    """A latency by how requests ended."""

    successful: LatencyFields = declared(help="of finished requests")


@dataclass(frozen=True, kw_only=True)
class RateFields(Foreign):
    """A distribution of a rate."""

    mean: float = declared(help="the mean", unit="tokens/s")


@dataclass(frozen=True, kw_only=True)
class RateByStatus(Foreign):
    """A rate by how requests ended."""

    successful: RateFields = declared(help="of finished requests")


@dataclass(frozen=True, kw_only=True)
class TotalsFields(Foreign):
    """Counts of requests."""

    successful: int = declared(help="that were finished", least=0)
    total: int = declared(help="that were sent", least=0)


@dataclass(frozen=True, kw_only=True)
class MetricsFields(Foreign):
    """Metrics of a benchmark of guidellm."""

    request_totals: TotalsFields = declared(help="requests")
    output_tokens_per_second: RateByStatus = declared(help="rate of the server")
    time_to_first_token_ms: LatencyByStatus = declared(help="time to the first token")
    inter_token_latency_ms: LatencyByStatus = declared(help="time between the further tokens")


@dataclass(frozen=True, kw_only=True)
class BenchmarkFields(Foreign):
    """A benchmark of guidellm, at one load."""

    duration: float = declared(help="time of the test", unit="s")
    metrics: MetricsFields = declared(help="figures")


def is_vllm(value: Any) -> bool:
    """Whether `value` is what vLLM's benchmark wrote."""
    return isinstance(value, dict) and {"duration", "completed", "output_throughput"} <= {*value}


def vllm(place: Place) -> Measured:
    """The run in the JSON of ``vllm bench serve``.

    Raises:
        BadInput: a figure is missing or not legal, or too few requests were finished.
    """
    path, run = place.document.file, record(VllmFields, place)
    sent = run.completed if run.num_prompts is None else run.num_prompts
    found = Load(
        requests=run.completed,
        failed=sent - run.completed,
        duration_s=run.duration,
        output_tokens_per_s=run.output_throughput,
        ttft_s=_seconds(run.median_ttft_ms, run.p90_ttft_ms, run.p99_ttft_ms),
        tpot_s=_seconds(run.median_tpot_ms, run.p90_tpot_ms, run.p99_tpot_ms),
    )
    return Measured(path, "vllm", load(path, found), run.model_id or None)


def is_guidellm(value: Any) -> bool:
    """Whether `value` is a report of guidellm."""
    return isinstance(value, dict) and isinstance(value.get("benchmarks"), list)


def guidellm(place: Place) -> Measured:
    """The one benchmark of a report.

    Raises:
        BadInput: there are several, or a figure is missing or not legal.
    """
    path, several = place.document.file, place.inner("benchmarks")
    if len(several.value) != 1:
        why = f": {len(several.value)} benchmarks; legal: one, at the load of the workload"
        raise several.told(why, "run guidellm with one rate")
    first = several.inner(0)
    run = record(BenchmarkFields, first)
    totals = run.metrics.request_totals
    found = Load(
        requests=totals.successful,
        failed=totals.total - totals.successful,
        duration_s=run.duration,
        output_tokens_per_s=run.metrics.output_tokens_per_second.successful.mean,
        ttft_s=_latency(run.metrics.time_to_first_token_ms),
        tpot_s=_latency(run.metrics.inter_token_latency_ms),
    )
    return Measured(path, "guidellm", load(path, found), _model(first.value))


def _model(benchmark: dict[str, Any]) -> str | None:
    """The model as guidellm's worker or backend names it."""
    for place in ("worker", "config", "backend"):
        within = benchmark.get(place)
        if isinstance(within, dict):
            for key in ("model", "backend_model", "target_model"):
                if isinstance(within.get(key), str):
                    return str(within[key])
    return None


def _latency(by_status: LatencyByStatus) -> dict[int, float]:
    found = by_status.successful
    return _seconds(found.median, found.percentiles.p90, found.percentiles.p99)


def _seconds(p50: float, p90: float | None, p99: float | None) -> dict[int, float]:
    """Percentiles of a latency that are there; the median always is."""
    ranks = {50: p50, 90: p90, 99: p99}
    return {rank: ms * _S_PER_MS for rank, ms in ranks.items() if ms is not None}
