"""Plans: the layout and batch that serve a load for the least, and the most load within an SLO."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput, EmulatorError, InternalError, OutOfMemory
from trnsim.facts import Interval
from trnsim.price import Quote, quote
from trnsim.system.serve.events import Router
from trnsim.system.serve.figures import Figures, Served, once, serve
from trnsim.system.serve.load import (
    Lengths,
    Load,
    Synthetic,
    at_rate,
    check_tokens,
    is_closed,
    part,
)
from trnsim.system.serve.server import (
    Deployment,
    Options,
    candidates,
    check_length,
    deploy,
    fleet,
    legal_tensors,
    served,
)

if TYPE_CHECKING:
    from datetime import date

    from trnsim.arch.catalogue import Catalogue
    from trnsim.system.layers.times import LayerTimes
    from trnsim.system.serve.machine import Machine
    from trnsim.system.workload.architecture import Architecture

_MOST_SEQUENCES: Final = 256
_WAVES: Final = 4
"""Requests of each client of a load that keeps a deployment busy."""
_LEAST: Final = 64
"""Requests of such a load at least."""
_NEAR: Final = 1.25
"""How far the guessed cost of a deployment may be above the best for a run to tell them apart."""
_RAMP: Final = 1.5
"""Times of a request in which such clients start: a slow deployment has no queue then, either."""
_TRIED: Final = 256
"""Requests of a run of the search."""
_MEASURED: Final = 768
"""Requests of a run whose P99 is looked at."""
_BISECTIONS: Final = 12
_SHOWN: Final = 1024
"""Requests of the run at the most load within an SLO."""
_LOWERED: Final = 24
_LOWER: Final = 0.97
"""How often, and to what part of it, a rate is lowered that a longer run does not keep."""
_PROMPTS: Final = 1
"""Prompts of a step where the batch is searched: with all of a static batch at once none begins
until all have ended. Source: vllm-neuron/docs/design/vllm/neuron-scheduler.md, 1 Prefill."""
_TAIL: Final = 3.1
"""Sigmas within which 99.9 % of lognormal lengths lie."""
_EQUAL: Final = 1.02
"""Costs whose ratio is below this are equal; then the faster one is taken."""
_MOST_STAGES: Final = 64


@dataclass(frozen=True)
class Slo:
    """What users are promised, at P99.

    Attributes:
        ttft_s: seconds to the first token; None without a promise.
        tpot_s: seconds between tokens.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("--slo-ttft", self.ttft_s), ("--slo-tpot", self.tpot_s)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise BadInput(f"{name} is {value}; legal: a positive number of seconds")

    def __bool__(self) -> bool:
        return self.ttft_s is not None or self.tpot_s is not None

    def is_met(self, figures: Figures) -> bool:
        """Whether a run keeps it."""
        limits = {"ttft_p99_s": self.ttft_s, "tpot_p99_s": self.tpot_s}
        return all(
            limit is None or figures.values.get(name, 0.0) <= limit
            for name, limit in limits.items()
        )


@dataclass(frozen=True)
class Demand:
    """What is to be served: a trace, a load to draw, or as much as a deployment can.

    Attributes:
        trace: requests that are given; None where they are drawn.
        drawn: the load to draw, or its lengths where a deployment is kept busy.
        is_busy: whether each sequence of a deployment has a client of its own.
        router: how requests are placed.
        is_saved: whether the load is to be kept: then every replica is run.
    """

    trace: Load | None
    drawn: Synthetic
    is_busy: bool = False
    router: Router = Router.ROUND_ROBIN
    is_saved: bool = False

    @property
    def longest(self) -> int:
        """Tokens of its longest sequence; of lengths without limit, of 99.9 % of them."""
        if self.trace is not None:
            return max(one.tokens for one in self.trace)
        limits = [
            one.longest or round(one.first * math.exp(_TAIL * one.second))
            for one in (self.drawn.inputs, self.drawn.outputs)
        ]
        return sum(limits) + self.drawn.prefix_tokens

    def busy(self, deployment: Deployment) -> Load:
        """A client for each sequence; they begin one after another, as they are after a while."""
        clients = deployment.engine.max_num_seqs * len(deployment.decoding)
        drawn = replace(
            self.drawn,
            concurrency=clients,
            rate_per_s=0.0,
            count=max(_WAVES, -(-_LEAST // clients)) * clients,
            ramp_s=_RAMP * request_s(deployment, self.drawn),
        )
        return drawn.requests(deployment.engine.max_model_len)


def kept_busy(inputs: int = 2048, outputs: int = 256) -> Demand:
    """As many requests of one kind as a deployment can serve."""
    lengths = (Lengths("fixed", inputs), Lengths("fixed", outputs))
    return Demand(None, Synthetic(*lengths, 1, concurrency=1), is_busy=True)


@dataclass(frozen=True)
class Plan:
    """A deployment that serves a demand.

    Attributes:
        deployment: the layout.
        served: its figures under the demand.
        load: the requests.
        quote: price of an instance.
        most_per_s: requests a second within the SLO; None without one.
        is_met: whether the demand itself is served within it.
        tried: layouts that were compared.
    """

    deployment: Deployment
    served: Served
    load: Load
    quote: Quote
    most_per_s: float | None
    is_met: bool
    tried: int

    @property
    def usd_per_million_tokens(self) -> Interval | None:
        """USD for a million output tokens, prompts included; None without a public price."""
        if self.quote.usd_per_hour is None:
            return None
        rate = self.served.figures["output_tokens_per_s"]
        usd_per_s = self.deployment.instances * self.quote.usd_per_hour / 3600
        p10, p50, p90 = (usd_per_s / one * 1e6 for one in (rate.p90, rate.p50, rate.p10))
        return Interval(p10, p50, p90)


def plan(
    model: Architecture,
    machine: Machine,
    options: Options,
    demand: Demand,
    *,
    slo: Slo | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
    times: LayerTimes | None = None,
) -> Plan:
    """The best deployment of `model` for `demand`, where `options` leave a choice.

    The best costs the least for a token among those that keep the SLO; of equal ones, the faster.

    Raises:
        BadInput: options that no deployment can have.
        OutOfMemory: nothing that may be chosen fits.
    """
    slo = slo or Slo()
    longest = options.max_model_len or _longest(model, demand)
    check_length(model, longest)
    given = demand.trace
    if given is None and not demand.is_busy:
        given = demand.drawn.requests(longest)
    if given is not None:
        check_tokens(given, longest)
        longest = options.max_model_len or max(one.tokens for one in given)
    options = replace(options, max_model_len=longest)
    found = _Search(model, machine, options, demand, given, slo, times).best()
    load, found, shown = _shown(demand, given, slo, found)
    return Plan(
        found.deployment,
        shown,
        load,
        quote(machine.instance.name, kind, as_of=as_of, rows=rows),
        found.most_per_s,
        _is_met(shown, slo),
        found.tried,
    )


def _shown(
    demand: Demand, given: Load | None, slo: Slo, found: _Found
) -> tuple[Load, _Found, Served]:
    """The load that is shown and its figures: the demand; with an SLO and none, the most within it.

    What a short run of one replica has found is lowered until a long one of all keeps it as well.
    """
    deployment, seed = found.deployment, demand.drawn.seed
    if given is None and slo:
        given, found = _kept(demand, slo, found)
    if given is not None:
        return given, found, serve(deployment, given, router=demand.router, seed=seed)
    is_whole = demand.is_saved or deployment.options.prefill_replicas
    count = deployment.replicas if is_whole else 1  # with clients of its own, each is like another
    some = replace(deployment, replicas=count)
    load = demand.busy(some)
    shown = serve(some, load, router=demand.router, seed=seed)
    return load, found, shown.times(deployment.replicas / count)


def _kept(demand: Demand, slo: Slo, found: _Found) -> tuple[Load, _Found]:
    """The most load that keeps the SLO, or one client where none does."""
    deployment, longest = found.deployment, found.deployment.engine.max_model_len
    most_per_s = found.most_per_s or 0.0
    for _ in range(_LOWERED if most_per_s else 0):
        count = max(_SHOWN, math.ceil(_WAVES * most_per_s * found.e2e_s))
        load = replace(demand.drawn.at_rate(most_per_s), count=count).requests(longest)
        figures = once(deployment, load, router=demand.router, seed=demand.drawn.seed)[1]
        if slo.is_met(figures):
            return load, replace(found, most_per_s=most_per_s)
        most_per_s *= _LOWER
    drawn = replace(demand.drawn, concurrency=1, rate_per_s=0.0, ramp_s=0.0, count=_WAVES)
    return drawn.requests(longest), replace(found, most_per_s=0.0)


def _longest(model: Architecture, demand: Demand) -> int:
    """Tokens of the longest sequence: of the demand; lengths without limit end at positions."""
    longest = demand.longest
    is_limited = demand.trace is not None or None not in (
        demand.drawn.inputs.longest,
        demand.drawn.outputs.longest,
    )
    return longest if is_limited or not model.max_positions else min(longest, model.max_positions)


def _is_met(shown: Served, slo: Slo) -> bool:
    values = {name: one.p50 for name, one in shown.figures.items()}
    return slo.is_met(Figures(values, {}))


@dataclass(frozen=True)
class _Found:
    """A deployment that was tried.

    Attributes:
        cost: what a token costs, in instance-seconds.
        e2e_s: seconds of a request.
        busy_per_s: requests a second of the run.
        is_met: whether the demand is served within the SLO.
        most_per_s: requests a second within the SLO.
        tried: deployments that were tried in all.
    """

    deployment: Deployment
    cost: float
    e2e_s: float
    busy_per_s: float
    is_met: bool
    most_per_s: float | None = None
    tried: int = 1

    def is_better(self, other: _Found | None) -> bool:
        """Whether it is to be taken rather than `other`."""
        if other is None or self.is_met != other.is_met:
            return self.is_met or other is None
        if max(self.cost, other.cost) < _EQUAL * min(self.cost, other.cost):
            return self.e2e_s < other.e2e_s
        return self.cost < other.cost


class _Search:
    """The deployments that options leave open, compared by short runs of the median times."""

    def __init__(
        self,
        model: Architecture,
        machine: Machine,
        options: Options,
        demand: Demand,
        given: Load | None,
        slo: Slo,
        times: LayerTimes | None,
    ) -> None:
        self.model = model
        self.machine = machine
        self.options = options
        self.demand = demand
        self.given = given
        self.slo = slo
        self.times = times

    def best(self) -> _Found:
        """The best deployment.

        Raises:
            EmulatorError: of the first one that was refused, the smallest, where none can be.
        """
        fitting: list[Deployment] = []
        refused: EmulatorError | None = None
        for options in self._choices():
            try:
                fitting.append(deploy(self.model, self.machine, options, self.times))
            except (BadInput, OutOfMemory) as error:
                refused = refused or error
        if not fitting:
            raise refused or BadInput(f"no layout of {self.machine.name} can serve this")
        if self.given is None:
            fitting.sort(key=self._guess)
        found = self._within(fitting) if self.slo and self.given is None else self._least(fitting)
        return replace(found, tried=len(fitting))

    def _least(self, fitting: list[Deployment]) -> _Found:
        """The deployment that costs the least; of those kept busy, the ones that may are run."""
        limit = math.inf if self.given is not None else _NEAR * self._guess(fitting[0])
        best: _Found | None = None
        for deployment in fitting:
            if self.given is None and self._guess(deployment) > limit:
                break
            one = self._try(deployment)
            best = one if one.is_better(best) else best
        if best is None:
            raise InternalError("no layout was tried")
        return replace(best, most_per_s=self._most(best)) if self.slo else best

    def _within(self, fitting: list[Deployment]) -> _Found:
        """The deployment that serves the most for its cost within the SLO.

        Kept busy it serves at least as much as within an SLO, so the cheapest are looked at first
        and those that cannot be the best are not.
        """
        best: _Found | None = None
        for deployment in fitting:
            if best is not None and best.is_met and self._guess(deployment) > _NEAR * best.cost:
                break
            one = self._try(deployment)
            most = self._most(one)
            cost = one.cost * one.busy_per_s / most if most else one.cost
            found = replace(one, most_per_s=most, is_met=most > 0, cost=cost)
            best = found if found.is_better(best) else best
        if best is None:
            raise InternalError("no layout was tried")
        return best

    def _guess(self, deployment: Deployment) -> float:
        """The cost of a token of a deployment that is kept busy, without waiting for anything."""
        drawn = self.demand.drawn
        tokens = deployment.engine.max_num_seqs * drawn.outputs.first * len(deployment.decoding)
        return deployment.instances * request_s(deployment, drawn) / tokens

    def _choices(self) -> Iterator[Options]:
        """What is set, with each choice of what is not."""
        options = self.options
        if options.tensor is not None:
            yield from self._batches(options)
            return
        model = served(self.model, options, self.machine)
        tensors = [
            one
            for one in legal_tensors(model, self.machine)
            if one * options.expert <= self.machine.ranks
        ]
        fitting = [one for one in tensors if self._fits(replace(options, tensor=one))]
        if fitting:
            for tensor in fitting:
                yield from self._batches(replace(options, tensor=tensor))
        else:
            yield from self._batches(self._spread(replace(options, tensor=max(tensors))))

    def _fits(self, options: Options) -> bool:
        """Whether a replica holds one sequence."""
        try:
            deploy(self.model, self.machine, _one(options), self.times)
        except (BadInput, OutOfMemory):
            return False
        return True

    def _spread(self, options: Options) -> Options:
        """The fewest stages, each an instance, that hold the model; one if none do."""
        if options.pipeline or not self.machine.instance.efa_bytes_per_s:
            return options
        for stages in range(2, _MOST_STAGES + 1):
            more = replace(options, pipeline=stages)
            if self._fits(more):
                return more
        return options

    def _batches(self, options: Options) -> Iterator[Options]:
        if options.max_num_seqs is not None:
            yield options
            return
        try:
            replicas, _ = fleet(self.machine, options)
        except BadInput:
            replicas = 1  # what is wrong is told when it is deployed
        decoding = max(replicas - options.prefill_replicas, 1)
        for sequences in candidates(self.machine, _sequences(self.given, decoding)):
            yield replace(
                options,
                max_num_seqs=sequences,
                prompts_at_once=options.prompts_at_once or _PROMPTS,
            )

    def _try(self, deployment: Deployment) -> _Found:
        """A short run of one replica of a deployment."""
        count = 1 if deployment.options.prefill_replicas else deployment.replicas
        if self.given is None:
            load = self.demand.busy(replace(deployment, replicas=deployment.replicas // count))
        else:
            load, count = part(self.given, count, _TRIED)
        values = self._run(deployment, load).values
        return _Found(
            deployment,
            deployment.instances / values["output_tokens_per_s"] / count,
            values["e2e_p50_s"],
            values["requests_per_s"] * count,
            self.slo.is_met(Figures(values, {})),
        )

    def _run(self, deployment: Deployment, load: Load) -> Figures:
        is_apart = deployment.options.prefill_replicas > 0
        one = deployment if is_apart else replace(deployment, replicas=1)
        router, seed = self.demand.router, self.demand.drawn.seed
        return once(one, load, router=router, seed=seed)[1]

    def _most(self, found: _Found) -> float:
        """Requests a second within the SLO, by bisection; 0 where a single request misses it."""
        deployment = found.deployment
        most = 2 * found.busy_per_s
        least = most / 2**_BISECTIONS
        if not self._is_met(deployment, least):
            return 0.0
        for _ in range(_BISECTIONS):
            middle = math.sqrt(least * most)
            if self._is_met(deployment, middle):
                least = middle
            else:
                most = middle
        return least

    def _is_met(self, deployment: Deployment, rate_per_s: float) -> bool:
        """Whether requests like the demand's at another rate are served within the SLO.

        Of gamma arrivals every n-th are gamma arrivals whose shape is n times as large.
        """
        count = 1 if deployment.options.prefill_replicas else deployment.replicas
        if self.given is None:
            drawn = self.demand.drawn.at_rate(rate_per_s / count)
            drawn = replace(drawn, count=_MEASURED, burstiness=count * drawn.burstiness)
            load = drawn.requests(deployment.engine.max_model_len)
        else:
            load = at_rate(self.given, rate_per_s, _MEASURED * count, self.demand.drawn.seed)
            load, _ = part(load, count, _MEASURED)
        return self.slo.is_met(self._run(deployment, load))


def _sequences(given: Load | None, replicas: int) -> int:
    """Sequences that a replica has at once, at most."""
    if given is None or not is_closed(given):
        return _MOST_SEQUENCES
    clients = sum(one.after is None for one in given)
    return min(-(-clients // replicas), _MOST_SEQUENCES)


def request_s(deployment: Deployment, drawn: Synthetic) -> float:
    """Seconds of a request on a replica that is kept busy: all prompts of a batch, and decodes."""
    engine, steps = deployment.engine, deployment.steps
    inputs = min(int(drawn.inputs.first) + drawn.prefix_tokens, engine.max_model_len)
    outputs = max(int(drawn.outputs.first), 1)
    prefill = steps.prefill(1, engine.bucket(inputs), 0).time_s
    decode = steps.decode(engine.max_num_seqs, engine.max_model_len).time_s
    return engine.max_num_seqs * prefill + outputs * decode / engine.growth


def _one(options: Options) -> Options:
    """The same with one sequence at a time, to see whether the weights fit."""
    return replace(options, max_num_seqs=options.max_num_seqs or 1, batches=())
