"""Capacity of a deployment: the highest request rate at which its latencies keep their limits.

    capacity = max { rate : P99 of each latency at that rate <= its limit }

The same requests are run closer together or further apart, so that two rates differ in nothing
else, and bisection finds the rate. A run is as long as its noise demands: the sampling error of the
capacity is estimated from eight parts of the run, and runs grow until it is small.

Without an SLO the limit is the *knee*: P99 of a whole request is twice that of a request alone.
For M/M/1 and for processor sharing that is the load at which throughput over delay is greatest
(Kleinrock, Power and deterministic rules of thumb, ICC 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router, RunOutcome
from trnsim.system.serve.figures import RunFigures, run_once, run_within
from trnsim.system.serve.load import Load, Synthetic, at_rate
from trnsim.system.serve.server import Deployment

KNEE_RATIO: Final = 2.0
"""P99 latency at the knee over that of a request alone."""
SHORT_RUN: Final = 512
"""Requests of a run that compares layouts."""
LONG_RUN: Final = 4096
"""Requests of a run that measures a capacity."""
LONGEST_RUN: Final = 16384
"""Requests to which such a run grows while its sampling error is too large."""
BRIEF_RUN: Final = 1024
"""Requests of every run of a brief measurement, whose sampling error is not reduced."""
SAMPLING_ERROR: Final = 0.01
"""Relative sampling error of a capacity at which runs are long enough."""
TOLERANCE: Final = 0.01
"""Relative difference between a rate that keeps the limits and one that does not at which
bisection ends."""
_MOST_REQUESTS: Final = 65536
"""Maximum number of requests of a run, even if its queue needs more to reach a limit."""
_ALONE_REQUESTS: Final = 64
"""Requests, one at a time, of a run without load."""
_STEP: Final = 1.3
"""First ratio of successive rates while bisection looks for its bracket."""
_NEAR_STEP: Final = 1.06
"""First ratio of successive rates from a guess that is the result of a shorter run."""
_LEAST_SHARE: Final = 1e-3
"""Fraction of the guessed rate below which the capacity counts as 0."""
_RUN_PARTS: Final = 8
"""Equal parts of a run, whose spread gives the sampling error."""
_PROBE: Final = 0.05
"""Relative overload at which a run must break a limit, and relative step of rates for a slope."""
_SHORT_PROBE: Final = 0.2
"""Relative overload at which a short run must break a limit."""


@dataclass(frozen=True)
class RequestPattern:
    """Requests without a fixed rate, from a trace or a distribution: a load can have any rate.

    Attributes:
        synthetic: the distribution; with a trace only its seed is used.
        trace: the user's requests, whose order and relative spacing are kept; None to draw them.
        longest: tokens of the longest sequence.
    """

    synthetic: Synthetic
    trace: Load | None
    longest: int
    _drawings: dict[tuple[int, int], Load] = field(default_factory=dict[tuple[int, int], Load])

    def load(self, rate_per_s: float, count: int, replicas: int = 1) -> Load:
        """`count` requests at `rate_per_s`, as round robin gives them to one of `replicas`.

        The load of all n replicas has n times the rate, and one replica gets every n-th request.
        Every n-th of gamma arrivals is a gamma arrival of n times the shape, so that the arrivals
        of one replica are drawn directly.
        """
        seed = self.synthetic.seed
        if self.trace is not None:
            fleet_load = at_rate(
                self.trace, rate_per_s * replicas, count * replicas, seed, replicas
            )
            return fleet_load[:count]
        key = (count, replicas)
        if key not in self._drawings:
            shape = replicas * self.synthetic.burstiness
            distribution = replace(self.synthetic.at_rate(1.0), count=count, burstiness=shape)
            self._drawings[key] = distribution.requests(self.longest)
        return at_rate(self._drawings[key], rate_per_s, count, seed)

    def sequential_load(self, count: int) -> Load:
        """`count` requests, each sent at the end of the previous request."""
        requests = self.load(1.0, count)
        return tuple(
            replace(request, arrival_s=0.0, after=index - 1 if index else None)
            for index, request in enumerate(requests)
        )

    @property
    def mean_tokens(self) -> tuple[float, float]:
        """Mean tokens of a prompt, less its shared prefix, and of an answer."""
        if self.trace is None:
            return self.synthetic.inputs.mean, self.synthetic.outputs.mean
        inputs = [request.input_tokens - request.prefix_tokens for request in self.trace]
        outputs = [request.output_tokens for request in self.trace]
        return float(np.mean(inputs)), float(np.mean(outputs))

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second of the trace or distribution; None if it has no rate."""
        if self.trace is None:
            return self.synthetic.rate_per_s or None
        span_s = self.trace[-1].arrival_s - self.trace[0].arrival_s
        return (len(self.trace) - 1) / span_s if span_s > 0 else None


@dataclass(frozen=True)
class Capacity:
    """The highest request rate of a deployment within its limits.

    Attributes:
        per_s: requests a second; 0 if a single request without load breaks a limit.
        limits: the limits: the SLO, or those of the knee.
        binding: the latency that reaches its limit first: ``ttft``, ``tpot`` or ``e2e``.
        error: relative sampling error of `per_s`, one sigma.
    """

    per_s: float
    limits: Slo
    binding: str
    error: float
    requests: int


class LoadTest:
    """Load tests of a deployment at any request rate; each distinct run is made once.

    Where replicas do not affect each other (round robin, no prefill replicas) one replica is run,
    with every n-th request; all rates given to the methods are those of the whole deployment.

    Attributes:
        router: the rule that places requests on replicas.
        cells: number of equal parts of the deployment, of which one is run: its replicas, or 1.
        cell: the part that is run: one replica, or the whole deployment.
        is_brief: whether runs stay short and their sampling error is not reduced.
    """

    def __init__(
        self,
        deployment: Deployment,
        pattern: RequestPattern,
        router: Router,
        *,
        is_brief: bool = False,
    ) -> None:
        self.deployment = deployment
        self.pattern = pattern
        self.router = router
        is_whole = bool(deployment.options.prefill_replicas) or router is Router.LEAST_WORK
        self.cells = 1 if is_whole else deployment.replicas
        self.cell = replace(deployment, replicas=deployment.replicas // self.cells)
        self.is_brief = is_brief
        self._runs: dict[tuple[float, int, str], tuple[Load, RunOutcome, RunFigures]] = {}
        self._alone: dict[str, RunFigures] = {}
        self._broken: set[tuple[float, int, str, Slo]] = set()

    def run(
        self, rate_per_s: float, count: int, quantile: str = "p50"
    ) -> tuple[Load, RunOutcome, RunFigures]:
        """The run of the cell under its share of a rate, with `count` requests.

        All steps take the time of their `quantile`.
        """
        key = (rate_per_s, count, quantile)
        if key not in self._runs:
            load = self._load(rate_per_s, count)
            self._runs[key] = (load, *self._run(load, quantile))
        return self._runs[key]

    def unloaded_figures(self, quantile: str = "p50") -> RunFigures:
        """Figures without load: requests one at a time."""
        if quantile not in self._alone:
            load = self.pattern.sequential_load(_ALONE_REQUESTS)
            self._alone[quantile] = self._run(load, quantile)[1]
        return self._alone[quantile]

    def limits(self, slo: Slo, quantile: str = "p50") -> Slo:
        """The SLO, with a further limit if an endless queue would not break it.

        An SLO of `tpot` alone gets a limit of `ttft`, an empty one a limit of `e2e`. Both are those
        of the knee: twice the time of a whole request without load.
        """
        knee_s = (
            KNEE_RATIO * self.unloaded_figures(quantile).values[f"e2e_p{slo.reported_percentile}_s"]
        )
        if not slo:
            return replace(slo, latency_s=knee_s)
        if slo.ttft_s is None and slo.latency_s is None:
            return replace(slo, ttft_s=knee_s)
        return slo

    def requests(self, limits: Slo, rate_per_s: float, count: int) -> int:
        """Number of requests of a run: `count`, or as many as an overload needs to break a limit.

        At 5 % overload (20 % in short runs) the queue must reach the limit before the run ends:

            requests >= limit x rate / overload
        """
        limit_s = min(filter(None, (limits.ttft_s, limits.latency_s)), default=0.0)
        overload = _PROBE if count > SHORT_RUN else _SHORT_PROBE
        fewest = math.ceil(limit_s * rate_per_s / self.cells / overload)
        return max(count, min(fewest, _MOST_REQUESTS))

    def is_within(self, limits: Slo, rate_per_s: float, count: int, quantile: str = "p50") -> bool:
        """True if a run at `rate_per_s` keeps the limits."""
        key = (rate_per_s, self.requests(limits, rate_per_s, count), quantile)
        if (*key, limits) in self._broken:
            return False
        if key not in self._runs and not self._runs_within(limits, *key):
            self._broken.add((*key, limits))
            return False
        return limits.is_met(self._runs[key][2])

    def highest_rate(
        self,
        limits: Slo,
        guess_per_s: float,
        count: int,
        *,
        quantile: str = "p50",
        step: float = _STEP,
    ) -> float:
        """The highest rate within the limits, by bisection from a guess; 0 if none keeps them.

        `step` is the first ratio of successive rates; it is squared until they bracket the result.
        """
        low = high = guess_per_s
        if self.is_within(limits, guess_per_s, count, quantile):
            high = low * step
            while high < guess_per_s / _LEAST_SHARE and self.is_within(
                limits, high, count, quantile
            ):
                step *= step
                low, high = high, high * step
        else:
            low = high / step
            while not self.is_within(limits, low, count, quantile):
                low, high, step = low / step, low, step * step
                if low < _LEAST_SHARE * guess_per_s:
                    return 0.0
        while high > (1 + TOLERANCE) * low:
            middle = math.sqrt(low * high)
            if self.is_within(limits, middle, count, quantile):
                low = middle
            else:
                high = middle
        return low

    def highest_rate_in_long_runs(self, slo: Slo, guess_per_s: float) -> tuple[float, int]:
        """The highest rate within an SLO in long runs, and the number of requests of each run.

        The rate is 0 if a request without load breaks a limit.
        """
        limits = self.limits(slo)
        if not limits.is_met(self.unloaded_figures()) or guess_per_s <= 0:
            return 0.0, _ALONE_REQUESTS
        count = self.requests(limits, guess_per_s, BRIEF_RUN if self.is_brief else LONG_RUN)
        return self.highest_rate(limits, guess_per_s, count, step=_NEAR_STEP), count

    def final_capacity(self, slo: Slo, most_per_s: float, count: int) -> Capacity:
        """The capacity, from the highest rate in runs of `count` requests.

        Runs are doubled, and the rate searched again, while the sampling error is too large.
        """
        limits, rate_per_s, first_count = self.limits(slo), most_per_s, count
        if not rate_per_s:
            return Capacity(0.0, limits, limits.worst(self.unloaded_figures())[0], 0.0, count)
        binding = limits.worst(self.run((1 + _PROBE) * rate_per_s, first_count)[2])[0]
        slope = self._slope(limits, binding, rate_per_s, first_count)
        error = self._sampling_error(limits, binding, rate_per_s, first_count, slope)
        longest_run = BRIEF_RUN if self.is_brief else LONGEST_RUN
        while error * math.sqrt(first_count / count) > SAMPLING_ERROR and count < longest_run:
            count *= 2
        if count > first_count:
            share = float(self._are_beyond(limits, binding, rate_per_s, count).mean())
            log_change = (1 - limits.percentile / 100 - share) / slope if slope else 0.0
            guess_per_s = rate_per_s * math.exp(min(max(log_change, -_PROBE), _PROBE))
            rate_per_s = self.highest_rate(limits, guess_per_s, count, step=1 + TOLERANCE)
            error = self._sampling_error(limits, binding, rate_per_s, count, slope)
        return Capacity(rate_per_s, limits, binding, error, count)

    def _runs_within(self, limits: Slo, rate_per_s: float, count: int, quantile: str) -> bool:
        """Run at a rate until a limit is broken for certain; True if that does not happen."""
        load, names = self._load(rate_per_s, count), limits.by_name
        seed = self.pattern.synthetic.seed
        run_result = run_within(
            self.cell,
            load,
            names,
            limits.reported_percentile,
            quantile,
            router=self.router,
            seed=seed,
        )
        if run_result is not None:
            self._runs[rate_per_s, count, quantile] = (load, *run_result)
        return run_result is not None

    def _load(self, rate_per_s: float, count: int) -> Load:
        """The requests of the cell under its share of a rate."""
        return self.pattern.load(rate_per_s / self.cells, count, self.cells)

    def _run(self, load: Load, quantile: str) -> tuple[RunOutcome, RunFigures]:
        seed = self.pattern.synthetic.seed
        return run_once(self.cell, load, quantile, router=self.router, seed=seed)

    def _slope(self, limits: Slo, name: str, rate_per_s: float, count: int) -> float:
        """``d share / d ln rate``; share: fraction of requests over the limit of latency `name`."""
        low, high = (
            float(self._are_beyond(limits, name, ratio * rate_per_s, count).mean())
            for ratio in (1 - _PROBE, 1 + _PROBE)
        )
        return max(high - low, 0.0) / (2 * _PROBE)

    def _sampling_error(
        self, limits: Slo, name: str, rate_per_s: float, count: int, slope: float
    ) -> float:
        """``sigma(share) / (d share / d ln rate)``, relative to the capacity; 1 at most.

        share: fraction of requests over the limit. Its sigma comes from the means of parts of the
        run, as requests that shared a queue are correlated.
        """
        parts = np.array_split(self._are_beyond(limits, name, rate_per_s, count), _RUN_PARTS)
        sigma = float(np.std([np.mean(part) for part in parts])) / math.sqrt(_RUN_PARTS - 1)
        return min(sigma / slope, 1.0) if slope else 1.0

    def _are_beyond(
        self, limits: Slo, name: str, rate_per_s: float, count: int
    ) -> np.typing.NDArray[np.bool_]:
        """For each request, True if its latency `name` is over the limit."""
        load, outcome, _ = self.run(rate_per_s, count)
        arrival_s, first_token_s = np.array(outcome.arrival_s), np.array(outcome.first_s)
        end_s, costs = np.array(outcome.end_s), self.cell.steps.costs()
        host_s = np.array([costs.request_overhead_s(request.input_tokens) for request in load])
        tokens = np.array([max(request.output_tokens, 2) for request in load])
        latencies = {
            "ttft": first_token_s - arrival_s + host_s,
            "tpot": (end_s - first_token_s) / (tokens - 1),
            "e2e": end_s - arrival_s + host_s,
        }
        is_over: np.typing.NDArray[np.bool_] = latencies[name] > limits.by_name[name]
        return is_over


def saturated_per_s(deployment: Deployment, pattern: RequestPattern) -> float:
    """Requests a second of a deployment whose batches are always full, by a closed form.

        replicas x sequences / (sequences x prompt_s + output tokens x decode_s)

    Prompts and decodes alternate, at mean lengths; with prefill replicas it is the lower rate of
    the two kinds. It orders layouts before they are run.
    """
    engine, steps, options = deployment.engine, deployment.steps, deployment.options
    inputs, outputs = pattern.mean_tokens
    sequences = engine.max_num_seqs
    length = min(inputs + outputs, engine.max_model_len)
    prompt_s = steps.prefill(1, engine.bucket(min(inputs, engine.max_model_len)), 0).time_s
    decode = steps.decode(sequences, engine.bucket(length) if engine.is_compiled else int(length))
    decode_total_s = outputs * decode.time_s / engine.tokens_per_step
    if options.prefill_replicas:
        decode_rate = (deployment.replicas - options.prefill_replicas) * sequences / decode_total_s
        return min(options.prefill_replicas / prompt_s, decode_rate)
    return deployment.replicas * sequences / (sequences * prompt_s + decode_total_s)
