"""Figures of a run: latency percentiles, throughput, utilisation, time per token by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim.estimate.estimate import QUANTILES
from trnsim.facts import Interval
from trnsim.place.links import Spread
from trnsim.system.serve import events
from trnsim.system.serve.breaches import Breaches
from trnsim.system.serve.engine import ReplicaRole
from trnsim.system.serve.events import Router, RunOutcome
from trnsim.system.serve.load import Load, Request
from trnsim.system.serve.replica import Replica
from trnsim.system.serve.replicas import replica_of
from trnsim.system.serve.server import Deployment
from trnsim.system.serve.step import QuantileCosts

PERCENTILES: Final = (50, 90, 99)
_FIGURES_OF_ALL_REPLICAS: Final = (
    "output_tokens_per_s",
    "requests_per_s",
    "queue_mean",
    "preemptions",
    "cached_prompt_tokens",
)
"""Figures that are sums over replicas, and so scale with the number of replicas."""
_LEAST_QUEUE_S: Final = 1e-9
"""Minimum queueing time; lower ones are rounding errors, and become 0."""
_LEAST_SHARE: Final = 0.25
"""Minimum fraction of a run over which throughput is counted; the whole run otherwise."""
WAITING: Final = "prompts of others"
"""Cause of the time that an output token waits for prefills of other requests: in steps between
two decodes, or in mixed steps."""


@dataclass(frozen=True)
class RunFigures:
    """Figures of one run.

    Attributes:
        values: figures by name, in SI units: ``ttft_p50_s``, ``output_tokens_per_s``.
        parts_s: mean time per output token in seconds, by cause.
    """

    values: Mapping[str, float]
    parts_s: Mapping[str, float]


@dataclass(frozen=True)
class ServingResult:
    """Figures of a deployment under a load, with the uncertainty of the times of steps.

    Attributes:
        figures: P10, P50 and P90 of each figure, by name.
        parts_s: mean time per output token in seconds, by cause, in the median run.
        outcome: times of requests in the median run (all steps at the P50 of their times).
    """

    figures: Mapping[str, Interval]
    parts_s: Mapping[str, float]
    outcome: RunOutcome

    def scaled(self, count: float) -> ServingResult:
        """The figures of `count` times the replicas under `count` times the load."""
        figures = {
            name: figure.scaled(count) if name in _FIGURES_OF_ALL_REPLICAS else figure
            for name, figure in self.figures.items()
        }
        return replace(self, figures=figures)


def serve(
    deployment: Deployment,
    load: Load,
    *,
    router: Router = Router.ROUND_ROBIN,
    seed: int = 0,
) -> ServingResult:
    """The figures of `deployment` under `load`, by three runs: all steps at P10, P50 or P90."""
    runs = {name: run_once(deployment, load, name, router=router, seed=seed) for name in QUANTILES}
    outcome, median = runs["p50"]
    figures: dict[str, Interval] = {}
    for name, value in median.values.items():
        bounds = sorted([value, *(runs[quantile][1].values[name] for quantile in ("p10", "p90"))])
        figures[name] = Interval(*bounds)
    return ServingResult(figures, median.parts_s, outcome)


def run_once(
    deployment: Deployment,
    load: Load,
    quantile: str = "p50",
    *,
    router: Router = Router.ROUND_ROBIN,
    seed: int = 0,
) -> tuple[RunOutcome, RunFigures]:
    """One run, with all steps at one quantile of their times."""
    costs = deployment.steps.costs(quantile)
    outcome = _outcome(deployment, load, costs, router, seed)
    return outcome, _figures(deployment, load, outcome, costs)


def run_within(
    deployment: Deployment,
    load: Load,
    limits_s: Mapping[str, float],
    percentile: float,
    quantile: str = "p50",
    *,
    router: Router = Router.ROUND_ROBIN,
    seed: int = 0,
) -> tuple[RunOutcome, RunFigures] | None:
    """`run_once`; None as soon as a limit is certainly broken.

    A run that reaches its end may still break a limit.

    Args:
        deployment: the deployment.
        load: the requests.
        limits_s: limits in seconds: ``ttft``, ``tpot``, ``e2e``.
        percentile: percent of the requests that have to keep each limit.
        quantile: quantile of the times of steps.
        router: the rule that places requests on replicas.
        seed: seed of the random numbers of accepted drafts.
    """
    costs = deployment.steps.costs(quantile)
    breaches = Breaches(limits_s, percentile, load, costs.request_overhead_s)
    outcome = _outcome(deployment, load, costs, router, seed, breaches)
    return None if breaches.is_broken else (outcome, _figures(deployment, load, outcome, costs))


def _outcome(
    deployment: Deployment,
    load: Load,
    costs: QuantileCosts,
    router: Router,
    seed: int,
    breaches: Breaches | None = None,
) -> RunOutcome:
    """A run on fresh replicas."""
    return events.run(
        load,
        [replica_of(engine, costs) for engine in deployment.engines()],
        router=router,
        transfer=lambda request: transfer_s(deployment, request),
        seed=seed,
        breaches=breaches,
    )


def unloaded_s(
    deployment: Deployment, request: Request, cached_tokens: int, costs: QuantileCosts
) -> float:
    """Time to the first token of a request without load, in seconds.

    It is the sum of host time, the prefill that follows `cached_tokens` tokens from the prefix
    cache, and with decode replicas the transfer of keys and values and one decode step.
    """
    engine = deployment.engine
    steps = engine.prompt_steps(request.input_tokens, cached_tokens)
    time_s = costs.request_overhead_s(request.input_tokens) + sum(
        costs.prefill(*step) for step in steps
    )
    if not deployment.options.prefill_replicas:
        return time_s
    tokens, batch = request.input_tokens, 1
    if engine.is_compiled:
        tokens, batch = tokens + 1 + engine.draft_tokens, engine.batch(1)
    return time_s + transfer_s(deployment, request) + costs.decode(batch, engine.length(tokens))


def transfer_s(deployment: Deployment, request: Request) -> float:
    """Seconds of the transfer of a prompt's keys, values and states to a decode replica.

    Each rank sends its own part, over EFA where replicas are on several instances.
    """
    nbytes = deployment.memory.prompt_bytes(request.input_tokens)
    is_apart = deployment.instances > 1
    stride = deployment.machine.ranks if is_apart else deployment.ranks
    return deployment.steps.rank.exchange_s("send", nbytes, Spread(2, stride))


def _figures(
    deployment: Deployment, load: Load, outcome: RunOutcome, costs: QuantileCosts
) -> RunFigures:
    arrival_s, first_s = np.array(outcome.arrival_s), np.array(outcome.first_s)
    start_s, end_s = np.array(outcome.start_s), np.array(outcome.end_s)
    counts = np.array([request.output_tokens for request in load], np.float64)
    duration_s = float(end_s.max() - arrival_s.min())
    has_gaps = counts > 1
    gaps_s = (end_s[has_gaps] - first_s[has_gaps]) / (counts[has_gaps] - 1)
    overhead_s, unloaded_times_s = _unloaded_times(deployment, load, outcome, costs)
    ttft_s = first_s - arrival_s + overhead_s
    queue_s = np.where(ttft_s - unloaded_times_s > _LEAST_QUEUE_S, ttft_s - unloaded_times_s, 0.0)
    values = {
        **_percentiles("ttft", ttft_s),
        **_percentiles("ttft_unloaded", unloaded_times_s),
        **_percentiles("ttft_queue", queue_s),
        **_percentiles("tpot", gaps_s),
        **_percentiles("tpot_inclusive", (end_s - arrival_s + overhead_s) / counts),
        **_percentiles("e2e", end_s - arrival_s + overhead_s),
        "output_tokens_per_s": _tokens_per_s(load, outcome),
        "requests_per_s": len(load) / duration_s,
        **_usage(outcome.replicas, duration_s),
        "queue_mean": float((start_s - arrival_s).sum()) / duration_s,
    }
    return RunFigures(values, _parts(deployment, outcome.replicas, gaps_s))


def _unloaded_times(
    deployment: Deployment, load: Load, outcome: RunOutcome, costs: QuantileCosts
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Host time and unloaded time to the first token of each request, in seconds."""
    unloaded_by_key: dict[tuple[int, int], float] = {}
    for request, cached_tokens in zip(load, outcome.cached_tokens, strict=True):
        key = request.input_tokens, cached_tokens
        if key not in unloaded_by_key:
            unloaded_by_key[key] = unloaded_s(deployment, request, cached_tokens, costs)
    keys = zip((request.input_tokens for request in load), outcome.cached_tokens, strict=True)
    return (
        np.array([costs.request_overhead_s(request.input_tokens) for request in load]),
        np.array([unloaded_by_key[key] for key in keys]),
    )


def _tokens_per_s(load: Load, outcome: RunOutcome) -> float:
    """Output tokens a second between ramp-up and the last arrival.

    If that window is less than `_LEAST_SHARE` of the run, or holds no token, all tokens are counted
    over the whole run.
    """
    arrival_s, end_s = np.array(outcome.arrival_s), np.array(outcome.end_s)
    first_s = np.minimum(np.array(outcome.first_s), end_s)
    counts = np.array([request.output_tokens for request in load], np.float64)
    is_closed = any(request.after is not None for request in load)
    starts = [request.arrival_s for request in load if request.after is None]
    begin_s, last_s = max(starts) if is_closed else min(starts), float(arrival_s.max())
    run_s = float(end_s.max() - arrival_s.min())
    if last_s - begin_s < _LEAST_SHARE * run_s:
        return float(counts.sum()) / run_s
    is_inside = (first_s >= begin_s) & (first_s < last_s)  # the first token is one point in time
    overlap_s = np.clip(end_s, begin_s, last_s) - np.clip(first_s, begin_s, last_s)
    share = overlap_s / np.maximum(end_s - first_s, 1e-30)
    tokens = float((is_inside + (counts - 1) * share).sum())
    return tokens / (last_s - begin_s) if tokens else float(counts.sum()) / run_s


def _percentiles(name: str, seconds: NDArray[np.float64]) -> dict[str, float]:
    if not seconds.size:
        return {}
    levels = np.percentile(seconds, PERCENTILES)
    return {f"{name}_p{p}_s": float(x) for p, x in zip(PERCENTILES, levels, strict=True)}


def _usage(replicas: Sequence[Replica], duration_s: float) -> dict[str, float]:
    """Utilisation of time and of batch slots, preemptions, and prompt tokens from the cache."""
    steps = sum(sum(replica.decodes.values()) for replica in replicas)
    slots = sum(n * batch for replica in replicas for (batch, _), n in replica.decodes.items())
    live_count = sum(replica.sequence_steps for replica in replicas)
    return {
        "utilisation": sum(replica.busy_s for replica in replicas) / duration_s / len(replicas),
        "batch_mean": live_count / steps if steps else 0.0,
        "batch_filled": live_count / slots if slots else 0.0,
        "preemptions": float(sum(replica.preemptions for replica in replicas)),
        "cached_prompt_tokens": float(sum(replica.cached_tokens for replica in replicas)),
    }


def _parts(
    deployment: Deployment, replicas: Sequence[Replica], gaps_s: NDArray[np.float64]
) -> dict[str, float]:
    """Mean time per output token in seconds, by cause.

    `gaps_s` is the mean time between tokens of each request. The part of it that decode steps do
    not explain is waiting for prefills.
    """
    tokens_per_step = deployment.engine.tokens_per_step
    sums_s: dict[str, float] = {}
    tokens = 0.0
    for replica in replicas:
        if replica.engine.role is ReplicaRole.PREFILL:
            continue
        for (batch, length), count in replica.decodes.items():
            step = deployment.steps.decode(batch, length)
            tokens += count * tokens_per_step
            for name, time_s in step.parts_s.items():
                sums_s[name] = sums_s.get(name, 0.0) + count * time_s
    if not tokens:
        return {}
    parts = {name: time_s / tokens for name, time_s in sums_s.items()}
    mean_s = float(gaps_s.mean()) if gaps_s.size else 0.0
    return parts | {WAITING: max(mean_s - sum(parts.values()), 0.0)}
