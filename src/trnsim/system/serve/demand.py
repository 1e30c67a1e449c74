"""Demand on a server: the requests it has to serve, and the latency limits (SLO)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import BadInput
from trnsim.system.serve.events import Router
from trnsim.system.serve.figures import PERCENTILES, RunFigures
from trnsim.system.serve.load import Lengths, Load, Synthetic
from trnsim.system.serve.server import Deployment

USUAL_INPUT: Final = 2048
USUAL_OUTPUT: Final = 256
"""Tokens of a prompt and of an answer where a user states none."""
WAVES: Final = 4
"""Requests of each client of a saturating load."""
_LEAST_REQUESTS: Final = 64
"""Requests of a saturating load at least."""
_RAMP_REQUEST_TIMES: Final = 1.5
"""Durations of a request over which the clients of a saturating load start, so that the run does
not begin with a queue."""
_LONGEST_SIGMAS: Final = 3.1
"""Sigmas within which 99.9 % of lognormal lengths lie."""


@dataclass(frozen=True)
class Slo:
    """Latency limits (service level objective); false if none is set.

    Attributes:
        ttft_s: limit of the time to the first token; None for no limit.
        tpot_s: limit of the mean time between the tokens of a request; None for no limit.
        latency_s: limit of the time of a whole request; None for no limit.
        percentile: percent of the requests that have to keep each limit.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    percentile: float = 99

    def __post_init__(self) -> None:
        for name, value in (("--slo-ttft", self.ttft_s), ("--slo-tpot", self.tpot_s)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise BadInput(f"{name} is {value}; legal: a positive number of seconds")

    def __bool__(self) -> bool:
        return bool(self.by_name)

    @property
    def by_name(self) -> dict[str, float]:
        """The limits that are set, in seconds: ``ttft``, ``tpot``, ``e2e``."""
        limits = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.latency_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def reported_percentile(self) -> int:
        """The lowest of `PERCENTILES` that is not below `percentile`: runs report no others."""
        return next((level for level in PERCENTILES if level >= self.percentile), PERCENTILES[-1])

    def is_met(self, figures: RunFigures) -> bool:
        """True if the figures of a run keep every limit."""
        return self.worst(figures)[1] <= 1

    def worst(self, figures: RunFigures) -> tuple[str, float]:
        """The latency of the highest ratio to its limit, and the ratio; ("", 0) without limits."""
        ratios = {
            name: figures.values.get(f"{name}_p{self.reported_percentile}_s", 0.0) / limit
            for name, limit in self.by_name.items()
        }
        return max(ratios.items(), key=lambda pair: pair[1], default=("", 0.0))


def request_s(deployment: Deployment, synthetic: Synthetic) -> float:
    """Rough seconds of a request on a saturated replica, for first guesses of loads and costs.

    prefills of a full batch of prompts + decode steps of the request
    """
    engine, steps = deployment.engine, deployment.steps
    inputs = min(math.ceil(synthetic.inputs.mean) + synthetic.prefix_tokens, engine.max_model_len)
    outputs = synthetic.outputs.mean
    prefill = steps.prefill(1, engine.bucket(inputs), 0).time_s
    decode = steps.decode(engine.max_num_seqs, engine.max_model_len).time_s
    return engine.max_num_seqs * prefill + outputs * decode / engine.tokens_per_step


@dataclass(frozen=True)
class Demand:
    """The requests that a deployment has to serve, at a rate that is known or still to be found.

    Attributes:
        trace: the user's requests; None to draw them from `synthetic`.
        synthetic: the distribution to draw from; with `is_saturating` and `has_open_rate` only its
            lengths, prefixes and seed count.
        is_saturating: whether a client for each slot of the deployment keeps it saturated.
        has_open_rate: whether no rate is stated: latencies are reported at a fraction of the
            capacity.
        router: the rule that places requests on replicas.
        is_saved: whether the user saves the load as a trace, so that all replicas are run.
    """

    trace: Load | None
    synthetic: Synthetic
    is_saturating: bool = False
    has_open_rate: bool = False
    router: Router = Router.ROUND_ROBIN
    is_saved: bool = False

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence; for a lognormal distribution its 99.9th percentile."""
        if self.trace is not None:
            return max(request.tokens for request in self.trace)
        limits = [
            lengths.longest or round(lengths.first * math.exp(_LONGEST_SIGMAS * lengths.second))
            for lengths in (self.synthetic.inputs, self.synthetic.outputs)
        ]
        return sum(limits) + self.synthetic.prefix_tokens

    def saturating_load(self, deployment: Deployment) -> Load:
        """A saturating load: a client for each sequence that the deployment decodes at once.

        Clients start one after another, so that the run resembles a steady state.
        """
        clients = deployment.engine.max_num_seqs * len(deployment.decode_replicas)
        distribution = replace(
            self.synthetic,
            concurrency=clients,
            rate_per_s=0.0,
            count=max(WAVES, -(-_LEAST_REQUESTS // clients)) * clients,
            ramp_s=_RAMP_REQUEST_TIMES * request_s(deployment, self.synthetic),
        )
        return distribution.requests(deployment.engine.max_model_len)


def usual_lengths(
    longest: int, inputs: Lengths | None = None, outputs: Lengths | None = None
) -> tuple[Lengths, Lengths]:
    """Lengths of prompts and of answers, if the user does not state both.

    `USUAL_INPUT` and `USUAL_OUTPUT`, less where both would exceed a sequence of `longest` tokens
    (0: without a limit): then an answer takes half of it at most, and a prompt the rest.
    """
    if outputs is None:
        room = longest // 2 if inputs is None else longest - (inputs.longest or 0)
        outputs = Lengths("fixed", _at_most(room, USUAL_OUTPUT))
    if inputs is None:
        inputs = Lengths("fixed", _at_most(longest - (outputs.longest or 0), USUAL_INPUT))
    return inputs, outputs


def _at_most(room: int, usual: int) -> int:
    """The usual number of tokens; fewer if there is room for fewer, unless there is no room."""
    return min(room, usual) if room > 0 else usual


def saturating_demand(inputs: int = USUAL_INPUT, outputs: int = USUAL_OUTPUT) -> Demand:
    """A demand that saturates its deployment with requests of `inputs` and `outputs` tokens."""
    lengths = (Lengths("fixed", inputs), Lengths("fixed", outputs))
    return Demand(None, Synthetic(*lengths, 1, concurrency=1), is_saturating=True)


def open_rate_demand(inputs: int, outputs: int) -> Demand:
    """A demand of requests of `inputs` and `outputs` tokens without a stated rate."""
    return replace(saturating_demand(inputs, outputs), is_saturating=False, has_open_rate=True)
