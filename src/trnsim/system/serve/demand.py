"""Demands on a server: the requests, and the SLO."""

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
"""Requests of each client of a load that keeps a deployment busy."""
_LEAST_REQUESTS: Final = 64
"""Requests of such a load at least."""
_RAMP_REQUEST_TIMES: Final = 1.5
"""Durations of a request over which such clients start: no deployment begins with a queue."""
_LONGEST_SIGMAS: Final = 3.1
"""Sigmas within which 99.9 % of lognormal lengths lie."""


@dataclass(frozen=True)
class Slo:
    """Limits of latency that users are promised.

    Attributes:
        ttft_s: seconds to the first token; None without a promise.
        tpot_s: seconds between tokens.
        latency_s: seconds of a whole request.
        percentile: percent of the requests that keep each limit.
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
        """The limits that are set, by the names of figures."""
        limits = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.latency_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def rank(self) -> int:
        """The least percentile of figures that is not below this one."""
        return next((rank for rank in PERCENTILES if rank >= self.percentile), PERCENTILES[-1])

    def is_met(self, figures: RunFigures) -> bool:
        """True if a run keeps the limits."""
        return self.worst(figures)[1] <= 1

    def worst(self, figures: RunFigures) -> tuple[str, float]:
        """The latency that is highest against its limit, and that ratio; "" without limits."""
        ratios = {
            name: figures.values.get(f"{name}_p{self.rank}_s", 0.0) / limit
            for name, limit in self.by_name.items()
        }
        return max(ratios.items(), key=lambda pair: pair[1], default=("", 0.0))


def request_s(deployment: Deployment, drawn: Synthetic) -> float:
    """Seconds of a request on a saturated replica: all prompts of a batch, and its decodes."""
    engine, steps = deployment.engine, deployment.steps
    inputs = min(math.ceil(drawn.inputs.mean) + drawn.prefix_tokens, engine.max_model_len)
    outputs = drawn.outputs.mean
    prefill = steps.prefill(1, engine.bucket(inputs), 0).time_s
    decode = steps.decode(engine.max_num_seqs, engine.max_model_len).time_s
    return engine.max_num_seqs * prefill + outputs * decode / engine.growth


@dataclass(frozen=True)
class Demand:
    """The load of a deployment: a trace, a distribution, saturation, or the most that is kept.

    Attributes:
        trace: the user's requests; None where they are drawn.
        drawn: the load to draw, or its lengths where a deployment is kept busy.
        is_busy: whether the deployment is saturated: a client for each of its sequences.
        is_free: whether the rate is to be found: a part of the most that a deployment keeps.
        router: how requests are placed.
        is_saved: whether the user saves the load as a trace: then every replica is run.
    """

    trace: Load | None
    drawn: Synthetic
    is_busy: bool = False
    is_free: bool = False
    router: Router = Router.ROUND_ROBIN
    is_saved: bool = False

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence; of unlimited lengths, the 99.9th percentile."""
        if self.trace is not None:
            return max(request.tokens for request in self.trace)
        limits = [
            lengths.longest or round(lengths.first * math.exp(_LONGEST_SIGMAS * lengths.second))
            for lengths in (self.drawn.inputs, self.drawn.outputs)
        ]
        return sum(limits) + self.drawn.prefix_tokens

    def busy(self, deployment: Deployment) -> Load:
        """A client for each sequence; they begin one after another, as in a steady state."""
        clients = deployment.engine.max_num_seqs * len(deployment.decoding)
        drawn = replace(
            self.drawn,
            concurrency=clients,
            rate_per_s=0.0,
            count=max(WAVES, -(-_LEAST_REQUESTS // clients)) * clients,
            ramp_s=_RAMP_REQUEST_TIMES * request_s(deployment, self.drawn),
        )
        return drawn.requests(deployment.engine.max_model_len)


def busy_demand(inputs: int = USUAL_INPUT, outputs: int = USUAL_OUTPUT) -> Demand:
    """Saturation with requests of one size."""
    lengths = (Lengths("fixed", inputs), Lengths("fixed", outputs))
    return Demand(None, Synthetic(*lengths, 1, concurrency=1), is_busy=True)


def free_demand(inputs: int, outputs: int) -> Demand:
    """Requests of one size, at a rate that is to be found."""
    return replace(busy_demand(inputs, outputs), is_busy=False, is_free=True)
