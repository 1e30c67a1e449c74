"""JSON of load tests: ``vllm bench serve --save-result``, and the report of guidellm.

Sources: docs.vllm.ai, cli/bench/serve (duration, completed, output_throughput, median_ttft_ms);
github.com/vllm-project/guidellm, docs (benchmarks, each with metrics by status, each of them a
distribution with mean, median and percentiles).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trnsim.calibrate.logs.measured import Load, RunLog, checked_load
from trnsim.reader import ForeignRecord, SourcePlace, declared, record

_S_PER_MS: Final = 1e-3
_SUCCESSFUL: Final = "successful"
_TTFT_PATH: Final = ("metrics", "time_to_first_token_ms", _SUCCESSFUL)
_TPOT_PATH: Final = ("metrics", "inter_token_latency_ms", _SUCCESSFUL)
_PERCENTILES_KEY: Final = "percentiles"


def _ms(help_text: str, *inside: str, name: str = "", is_required: bool = False) -> Any:
    alias = (name,) if name else ()
    rule = {"help": help_text, "unit": "ms", "alias": alias, "inside": inside}
    return declared(**rule) if is_required else declared(None, **rule)


@dataclass(frozen=True, kw_only=True)
class VllmFields(ForeignRecord):
    """The JSON of ``vllm bench serve``."""

    completed: int = declared(help="requests that were finished", minimum=0)
    num_prompts: int | None = declared(None, help="requests that were sent", minimum=0)
    duration: float = declared(help="time of the test", unit="s")
    output_throughput: float = declared(help="tokens generated a second", unit="tokens/s")
    median_ttft_ms: float = _ms("time to the first token, P50", is_required=True)
    p90_ttft_ms: float | None = _ms("P90 of it")
    p99_ttft_ms: float | None = _ms("P99 of it")
    median_tpot_ms: float = _ms("time between the further tokens, P50", is_required=True)
    p90_tpot_ms: float | None = _ms("P90 of it")
    p99_tpot_ms: float | None = _ms("P99 of it")
    model_id: str = declared("", help="the model")


@dataclass(frozen=True, kw_only=True)
class GuidellmFields(ForeignRecord):
    """A benchmark in the report of guidellm, at one load."""

    duration: float = declared(help="time of the test", unit="s")
    finished: int = declared(
        help="requests that were finished",
        minimum=0,
        inside=("metrics", "request_totals"),
        alias=(_SUCCESSFUL,),
    )
    sent: int = declared(
        help="requests that were sent",
        minimum=0,
        inside=("metrics", "request_totals"),
        alias=("total",),
    )
    output_tokens_per_s: float = declared(
        help="mean of tokens generated a second",
        unit="tokens/s",
        inside=("metrics", "output_tokens_per_second", _SUCCESSFUL),
        alias=("mean",),
    )
    ttft_p50: float = _ms("time to the first token", *_TTFT_PATH, name="median", is_required=True)
    ttft_p90: float | None = _ms("P90 of it", *_TTFT_PATH, _PERCENTILES_KEY, name="p90")
    ttft_p99: float | None = _ms("P99 of it", *_TTFT_PATH, _PERCENTILES_KEY, name="p99")
    tpot_p50: float = _ms("time between tokens", *_TPOT_PATH, name="median", is_required=True)
    tpot_p90: float | None = _ms("P90 of it", *_TPOT_PATH, _PERCENTILES_KEY, name="p90")
    tpot_p99: float | None = _ms("P99 of it", *_TPOT_PATH, _PERCENTILES_KEY, name="p99")


def is_vllm(value: Any) -> bool:
    """True if `value` is the JSON that vLLM's benchmark writes."""
    return isinstance(value, dict) and {"duration", "completed", "output_throughput"} <= {*value}


def vllm(place: SourcePlace) -> RunLog:
    """The run in the JSON of ``vllm bench serve``.

    Raises:
        BadInput: a figure is missing or not legal, or too few requests were finished.
    """
    path, run = place.document.file, record(VllmFields, place)
    sent = run.completed if run.num_prompts is None else run.num_prompts
    figures = Load(
        requests=run.completed,
        failed=sent - run.completed,
        duration_s=run.duration,
        output_tokens_per_s=run.output_throughput,
        ttft_s=_seconds(run.median_ttft_ms, run.p90_ttft_ms, run.p99_ttft_ms),
        tpot_s=_seconds(run.median_tpot_ms, run.p90_tpot_ms, run.p99_tpot_ms),
    )
    return RunLog(path, "vllm", checked_load(path, figures), run.model_id or None)


def is_guidellm(value: Any) -> bool:
    """True if `value` is a report of guidellm."""
    return isinstance(value, dict) and isinstance(value.get("benchmarks"), list)


def guidellm(place: SourcePlace) -> RunLog:
    """The run in a report with a single benchmark.

    Raises:
        BadInput: it has several benchmarks, or a figure is missing or not legal.
    """
    path, benchmarks = place.document.file, place.inner("benchmarks")
    if len(benchmarks.value) != 1:
        why = f": {len(benchmarks.value)} benchmarks; legal: one, at the load of the workload"
        raise benchmarks.field_error(why, "run guidellm with one rate")
    benchmark = benchmarks.inner(0)
    run = record(GuidellmFields, benchmark)
    figures = Load(
        requests=run.finished,
        failed=run.sent - run.finished,
        duration_s=run.duration,
        output_tokens_per_s=run.output_tokens_per_s,
        ttft_s=_seconds(run.ttft_p50, run.ttft_p90, run.ttft_p99),
        tpot_s=_seconds(run.tpot_p50, run.tpot_p90, run.tpot_p99),
    )
    return RunLog(path, "guidellm", checked_load(path, figures), _model(benchmark.value))


def _model(benchmark: dict[str, Any]) -> str | None:
    """Name of the model, under whichever of guidellm's keys has it; None without one."""
    for part_key in ("worker", "config", "backend"):
        part = benchmark.get(part_key)
        if isinstance(part, dict):
            for key in ("model", "backend_model", "target_model"):
                if isinstance(part.get(key), str):
                    return str(part[key])
    return None


def _seconds(p50: float, p90: float | None, p99: float | None) -> dict[int, float]:
    """Percentiles of a latency in seconds, without those that are missing."""
    ranks = {50: p50, 90: p90, 99: p99}
    return {rank: ms * _S_PER_MS for rank, ms in ranks.items() if ms is not None}
