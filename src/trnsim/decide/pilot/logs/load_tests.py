"""JSON of load tests: ``vllm bench serve --save-result``, and the report of guidellm.

Sources: docs.vllm.ai, cli/bench/serve (duration, completed, output_throughput, median_ttft_ms);
github.com/vllm-project/guidellm, docs (benchmarks, each with metrics by status, each of them a
distribution with mean, median and percentiles).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trnsim.decide.pilot.logs.measured import Load, Measured, load
from trnsim.errors import BadInput

_RANKS: Final = (50, 90, 99)
_S_PER_MS: Final = 1e-3


def is_vllm(value: Any) -> bool:
    """Whether `value` is what vLLM's benchmark wrote."""
    return isinstance(value, Mapping) and {"duration", "completed", "output_throughput"} <= {*value}


def vllm(path: str, value: Mapping[str, Any]) -> Measured:
    """The run in the JSON of ``vllm bench serve``.

    Raises:
        BadInput: a figure is missing or not legal, or too few requests were finished.
    """
    requests = _number(path, value, "completed")
    sent = _number(path, value, "num_prompts") if "num_prompts" in value else requests
    found = Load(
        requests=int(requests),
        failed=int(sent - requests),
        duration_s=_number(path, value, "duration"),
        output_tokens_per_s=_number(path, value, "output_throughput"),
        ttft_s=_percentiles_ms(path, value, "ttft"),
        tpot_s=_percentiles_ms(path, value, "tpot"),
    )
    name = value.get("model_id")
    return Measured(path, "vllm", load(path, found), name if isinstance(name, str) else None)


def _percentiles_ms(path: str, value: Mapping[str, Any], name: str) -> dict[int, float]:
    """The percentiles of a latency that are there; the median always is."""
    found = {50: _number(path, value, f"median_{name}_ms") * _S_PER_MS}
    for rank in _RANKS[1:]:
        if f"p{rank}_{name}_ms" in value:
            found[rank] = _number(path, value, f"p{rank}_{name}_ms") * _S_PER_MS
    return found


def is_guidellm(value: Any) -> bool:
    """Whether `value` is a report of guidellm."""
    return isinstance(value, Mapping) and isinstance(value.get("benchmarks"), list)


def guidellm(path: str, value: Mapping[str, Any]) -> Measured:
    """The one benchmark of a report.

    Raises:
        BadInput: there are several, or a figure is missing or not legal.
    """
    several = value["benchmarks"]
    if len(several) != 1:
        raise BadInput(
            f"{path}: {len(several)} benchmarks; legal: one, at the load of the workload",
            fix="run guidellm with one rate",
        )
    (one,) = several
    metrics = _inside(path, one, "metrics")
    totals = _inside(path, metrics, "request_totals")
    requests = _number(path, totals, "successful")
    found = Load(
        requests=int(requests),
        failed=int(_number(path, totals, "total") - requests),
        duration_s=_number(path, one, "duration"),
        output_tokens_per_s=_number(
            path, _successful(path, metrics, "output_tokens_per_second"), "mean"
        ),
        ttft_s=_distribution_ms(path, metrics, "time_to_first_token_ms"),
        tpot_s=_distribution_ms(path, metrics, "inter_token_latency_ms"),
    )
    return Measured(path, "guidellm", load(path, found), _model(one))


def _model(benchmark: Mapping[str, Any]) -> str | None:
    """The model as guidellm's worker or backend names it."""
    for place in ("worker", "config", "backend"):
        within = benchmark.get(place)
        if isinstance(within, Mapping):
            for key in ("model", "backend_model", "target_model"):
                if isinstance(within.get(key), str):
                    return str(within[key])
    return None


def _distribution_ms(path: str, metrics: Mapping[str, Any], name: str) -> dict[int, float]:
    found = _successful(path, metrics, name)
    ranks = _inside(path, found, "percentiles")
    made = {50: _number(path, found, "median") * _S_PER_MS}
    for rank in _RANKS[1:]:
        if f"p{rank}" in ranks:
            made[rank] = _number(path, ranks, f"p{rank}") * _S_PER_MS
    return made


def _successful(path: str, metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _inside(path, _inside(path, metrics, name), "successful")


def _inside(path: str, value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(found, Mapping):
        raise BadInput(f"{path}: {key} is missing", fix="give the file as the benchmark wrote it")
    return found


def _number(path: str, value: Mapping[str, Any], key: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise BadInput(f"{path}: {key} is {found!r}; legal: a number")
    return float(found)
