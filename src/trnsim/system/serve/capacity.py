"""The most load of a deployment: the highest rate at which its latencies are within their limits.

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
"""Requests of a run that measures a capacity, and of one whose sampling error is too large."""
LONGEST_RUN: Final = 16384
BRIEF_RUN: Final = 1024
"""Requests of every run of a brief measurement, whose sampling error is not reduced."""
SAMPLING_ERROR: Final = 0.01
"""Relative sampling error of a capacity at which runs are long enough."""
TOLERANCE: Final = 0.01
"""Relative distance of a kept and a broken rate at which bisection ends."""
_MOST_REQUESTS: Final = 65536
_ALONE_REQUESTS: Final = 64
_STEP: Final = 1.3
"""Ratio of two rates of the search for a bracket."""
_NEAR_STEP: Final = 1.06
"""Ratio of two rates of the search that starts at the result of a run."""
_LEAST_PART: Final = 1e-3
"""Part of the guess below which a deployment is said to keep no load."""
_PARTS: Final = 8
_PROBE: Final = 0.05
_SHORT_PROBE: Final = 0.2


@dataclass(frozen=True)
class RequestPattern:
    """Requests of which the rate is free: those of a trace, or drawn.

    Attributes:
        drawn: the distribution; of a trace, its seed alone counts.
        trace: the user's requests, whose order in time is kept.
        longest: tokens of the longest sequence.
    """

    drawn: Synthetic
    trace: Load | None
    longest: int
    _drawings: dict[tuple[int, int], Load] = field(default_factory=dict[tuple[int, int], Load])

    def load(self, rate_per_s: float, count: int, every: int = 1) -> Load:
        """`count` requests at a rate: every `every`-th of a load `every` times as dense.

        Of gamma arrivals every n-th are gamma arrivals of n times the shape.
        """
        seed = self.drawn.seed
        if self.trace is not None:
            dense = at_rate(self.trace, rate_per_s * every, count * every, seed, every)
            return dense[:count]
        key = (count, every)
        if key not in self._drawings:
            shape = every * self.drawn.burstiness
            drawn = replace(self.drawn.at_rate(1.0), count=count, burstiness=shape)
            self._drawings[key] = drawn.requests(self.longest)
        return at_rate(self._drawings[key], rate_per_s, count, seed)

    def one_by_one(self, count: int) -> Load:
        """`count` requests, each of which comes when the one before has ended."""
        requests = self.load(1.0, count)
        return tuple(
            replace(request, arrival_s=0.0, after=place - 1 if place else None)
            for place, request in enumerate(requests)
        )

    @property
    def mean_tokens(self) -> tuple[float, float]:
        """Mean tokens of a prompt, less its shared prefix, and of an answer."""
        if self.trace is None:
            return self.drawn.inputs.mean, self.drawn.outputs.mean
        inputs = [request.input_tokens - request.prefix_tokens for request in self.trace]
        outputs = [request.output_tokens for request in self.trace]
        return float(np.mean(inputs)), float(np.mean(outputs))

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second of the demand; None of one that has no rate."""
        if self.trace is None:
            return self.drawn.rate_per_s or None
        span_s = self.trace[-1].arrival_s - self.trace[0].arrival_s
        return (len(self.trace) - 1) / span_s if span_s > 0 else None


@dataclass(frozen=True)
class Capacity:
    """The most load of a deployment.

    Attributes:
        per_s: requests a second; 0 if a request alone breaks a limit.
        limits: the limits that bind: the SLO, or those of the knee.
        binding: the latency that reaches its limit first, as ``ttft``.
        error: relative sampling error, one sigma.
        requests: requests of each run.
    """

    per_s: float
    limits: Slo
    binding: str
    error: float
    requests: int


class LoadTest:
    """Runs of a deployment at rates of its own; equal runs are made once.

    Only one replica is run where all are alike: round robin gives each of n every n-th request.
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
        """The part that is run, under its share of a rate of the whole deployment."""
        key = (rate_per_s, count, quantile)
        if key not in self._runs:
            load = self._load(rate_per_s, count)
            self._runs[key] = (load, *self._run(load, quantile))
        return self._runs[key]

    def alone(self, quantile: str = "p50") -> RunFigures:
        """Figures of requests that never meet another."""
        if quantile not in self._alone:
            load = self.pattern.one_by_one(_ALONE_REQUESTS)
            self._alone[quantile] = self._run(load, quantile)[1]
        return self._alone[quantile]

    def limits(self, slo: Slo, quantile: str = "p50") -> Slo:
        """The SLO, with the limits without which no load is too high.

        Without one for the whole request or its first token a queue may grow for ever: the first
        token then comes within twice the time of a whole request alone.
        """
        knee_s = KNEE_RATIO * self.alone(quantile).values[f"e2e_p{slo.rank}_s"]
        if not slo:
            return replace(slo, latency_s=knee_s)
        if slo.ttft_s is None and slo.latency_s is None:
            return replace(slo, ttft_s=knee_s)
        return slo

    def requests(self, limits: Slo, rate_per_s: float, count: int) -> int:
        """`count`, or as many requests as show that a rate is too high.

        A queue that grows by a twentieth of the time has to reach the limit before the run ends;
        in the shortest runs, which only compare layouts, one that grows by a fifth.
        """
        limit_s = min(filter(None, (limits.ttft_s, limits.latency_s)), default=0.0)
        growth = _PROBE if count > SHORT_RUN else _SHORT_PROBE
        shown = math.ceil(limit_s * rate_per_s / self.cells / growth)
        return max(count, min(shown, _MOST_REQUESTS))

    def is_kept(self, limits: Slo, rate_per_s: float, count: int, quantile: str = "p50") -> bool:
        """True if a rate is served within the limits."""
        key = (rate_per_s, self.requests(limits, rate_per_s, count), quantile)
        if (*key, limits) in self._broken:
            return False
        if key not in self._runs and not self._runs_within(limits, *key):
            self._broken.add((*key, limits))
            return False
        return limits.is_met(self._runs[key][2])

    def most(
        self,
        limits: Slo,
        guess_per_s: float,
        count: int,
        *,
        quantile: str = "p50",
        step: float = _STEP,
    ) -> float:
        """The highest rate within the limits, found from a guess; 0 if none is."""
        low = high = guess_per_s
        if self.is_kept(limits, guess_per_s, count, quantile):
            high = low * step
            while high < guess_per_s / _LEAST_PART and self.is_kept(limits, high, count, quantile):
                step *= step
                low, high = high, high * step
        else:
            low = high / step
            while not self.is_kept(limits, low, count, quantile):
                low, high, step = low / step, low, step * step
                if low < _LEAST_PART * guess_per_s:
                    return 0.0
        while high > (1 + TOLERANCE) * low:
            middle = math.sqrt(low * high)
            if self.is_kept(limits, middle, count, quantile):
                low = middle
            else:
                high = middle
        return low

    def capacity(self, slo: Slo, guess_per_s: float) -> Capacity:
        """The most load within an SLO, in runs that are long enough for its sampling error.

        The guess is that of a short run.
        """
        return self.final_capacity(slo, *self.long_most(slo, guess_per_s))

    def long_most(self, slo: Slo, guess_per_s: float) -> tuple[float, int]:
        """The most load within an SLO in long runs, and their requests.

        The load is 0 if a request alone breaks a limit.
        """
        limits = self.limits(slo)
        if not limits.is_met(self.alone()) or guess_per_s <= 0:
            return 0.0, _ALONE_REQUESTS
        count = self.requests(limits, guess_per_s, BRIEF_RUN if self.is_brief else LONG_RUN)
        return self.most(limits, guess_per_s, count, step=_NEAR_STEP), count

    def final_capacity(self, slo: Slo, most_per_s: float, count: int) -> Capacity:
        """The capacity of a most load in long runs, or in longer ones if its error is too large."""
        limits, most, first = self.limits(slo), most_per_s, count
        if not most:
            return Capacity(0.0, limits, limits.worst(self.alone())[0], 0.0, count)
        binding = limits.worst(self.run((1 + _PROBE) * most, first)[2])[0]
        slope = self._slope(limits, binding, most, first)
        error = self._sampling_error(limits, binding, most, first, slope)
        last = BRIEF_RUN if self.is_brief else LONGEST_RUN
        while error * math.sqrt(first / count) > SAMPLING_ERROR and count < last:
            count *= 2
        if count > first:
            share = float(self._are_beyond(limits, binding, most, count).mean())
            moved = (1 - limits.percentile / 100 - share) / slope if slope else 0.0
            guess_per_s = most * math.exp(min(max(moved, -_PROBE), _PROBE))
            most = self.most(limits, guess_per_s, count, step=1 + TOLERANCE)
            error = self._sampling_error(limits, binding, most, count, slope)
        return Capacity(most, limits, binding, error, count)

    def _runs_within(self, limits: Slo, rate_per_s: float, count: int, quantile: str) -> bool:
        """Run at a rate until a limit is broken for certain; True if that does not happen."""
        load, names = self._load(rate_per_s, count), limits.by_name
        seed = self.pattern.drawn.seed
        ran = run_within(
            self.cell, load, names, limits.rank, quantile, router=self.router, seed=seed
        )
        if ran is not None:
            self._runs[rate_per_s, count, quantile] = (load, *ran)
        return ran is not None

    def _load(self, rate_per_s: float, count: int) -> Load:
        """The share of the part that is run."""
        return self.pattern.load(rate_per_s / self.cells, count, self.cells)

    def _run(self, load: Load, quantile: str) -> tuple[RunOutcome, RunFigures]:
        seed = self.pattern.drawn.seed
        return run_once(self.cell, load, quantile, router=self.router, seed=seed)

    def _slope(self, limits: Slo, name: str, most: float, count: int) -> float:
        """Growth of the share of requests beyond a limit with the logarithm of the rate."""
        low, high = (
            float(self._are_beyond(limits, name, part * most, count).mean())
            for part in (1 - _PROBE, 1 + _PROBE)
        )
        return max(high - low, 0.0) / (2 * _PROBE)

    def _sampling_error(
        self, limits: Slo, name: str, most: float, count: int, slope: float
    ) -> float:
        """``sigma(share) / (d share / d ln rate)``, relative to the capacity; 1 at most.

        share: the share of requests beyond the limit. Its sigma is that of the means of parts of
        the run, which holds for requests that are alike because they met in one queue.
        """
        parts = np.array_split(self._are_beyond(limits, name, most, count), _PARTS)
        sigma = float(np.std([np.mean(part) for part in parts])) / math.sqrt(_PARTS - 1)
        return min(sigma / slope, 1.0) if slope else 1.0

    def _are_beyond(
        self, limits: Slo, name: str, rate_per_s: float, count: int
    ) -> np.typing.NDArray[np.bool_]:
        """One value a request: True if its latency `name` is beyond the limit."""
        load, outcome, _ = self.run(rate_per_s, count)
        arrival, first = np.array(outcome.arrival_s), np.array(outcome.first_s)
        end, costs = np.array(outcome.end_s), self.cell.steps.costs()
        host = np.array([costs.around(request.input_tokens) for request in load])
        tokens = np.array([max(request.output_tokens, 2) for request in load])
        latencies = {
            "ttft": first - arrival + host,
            "tpot": (end - first) / (tokens - 1),
            "e2e": end - arrival + host,
        }
        beyond: np.typing.NDArray[np.bool_] = latencies[name] > limits.by_name[name]
        return beyond


def saturated_per_s(deployment: Deployment, pattern: RequestPattern) -> float:
    """Requests a second of a deployment whose batches are always full, by a closed form.

        sequences / (sequences x prompt + output tokens x step)

    It ranks layouts: prompts and steps in turn, at the mean length.
    """
    engine, steps, options = deployment.engine, deployment.steps, deployment.options
    inputs, outputs = pattern.mean_tokens
    sequences = engine.max_num_seqs
    length = min(inputs + outputs, engine.max_model_len)
    prompt_s = steps.prefill(1, engine.bucket(min(inputs, engine.max_model_len)), 0).time_s
    step_s = steps.decode(sequences, engine.bucket(length) if engine.is_compiled else int(length))
    decoding_s = outputs * step_s.time_s / engine.growth
    if options.prefill_replicas:
        decoding = (deployment.replicas - options.prefill_replicas) * sequences / decoding_s
        return min(options.prefill_replicas / prompt_s, decoding)
    return deployment.replicas * sequences / (sequences * prompt_s + decoding_s)
