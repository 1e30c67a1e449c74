"""Plans: the fleet of least cost for a load, its latencies, and its price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.estimate import matching
from trnsim.estimate.choice import layer_times
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.times import LayerTimes
from trnsim.facts import Interval
from trnsim.place.machine import Machine
from trnsim.price import Quote, quote
from trnsim.system.serve.answer import (
    CapacityAnswer,
    capacity_answer,
    measured_answer,
    other_instances,
)
from trnsim.system.serve.capacity import RequestPattern
from trnsim.system.serve.curve import curve
from trnsim.system.serve.demand import WAVES, Demand, Slo
from trnsim.system.serve.figures import RunFigures, ServingResult, serve
from trnsim.system.serve.load import Load, check_tokens, is_closed
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.ranking import Tell, layout
from trnsim.system.serve.search import Search, SmallerSplit
from trnsim.system.serve.server import Deployment, check_length, legal_tensors, served_model
from trnsim.system.serve.sizing import Spare
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Phase, Split

_SHOWN_RUN: Final = 2048
"""Requests of a unit in a run whose figures are shown."""


@dataclass(frozen=True)
class ServingPlan:
    """A deployment that serves a demand.

    Attributes:
        deployment: the layout.
        served: its figures under the demand.
        load: the requests that were run.
        quote: price of an instance.
        usd_per_million_tokens: USD for a million output tokens, prompts included; None without a
            public price.
        is_met: whether the demand itself is served within the SLO.
        tried: layouts that were compared.
        answer: what the deployment keeps; None for clients without an SLO, who set the rate.
        fewer: fewer tensor ranks that are not slower than the requested ones, or None.
    """

    deployment: Deployment
    served: ServingResult
    load: Load
    quote: Quote
    usd_per_million_tokens: Interval | None
    is_met: bool
    tried: int
    answer: CapacityAnswer | None = None
    fewer: SmallerSplit | None = None

    @property
    def most_per_s(self) -> float | None:
        """Most requests a second within the limits; None where they were not looked for."""
        return None if self.answer is None else self.answer.most_per_s

    @property
    def usd_per_hour(self) -> float | None:
        """USD an hour of all instances; None without a public price."""
        hourly = self.quote.usd_per_hour
        return None if hourly is None else self.deployment.instances * float(hourly)


def plan(
    model: Architecture,
    machine: Machine,
    options: ServerOptions,
    demand: Demand,
    *,
    slo: Slo | None = None,
    spare: Spare | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
    times: LayerTimes | None = None,
    measured: MeasuredTimes | None = None,
    tell: Tell = lambda _: None,
) -> ServingPlan:
    """The deployment of least cost of `model` for `demand` among those that `options` allow.

    For a demand with a rate it is the fewest instances that keep the SLO, with a spare. If the rate
    is free, it is the layout that serves the most requests per instance. A user's `measured` times
    of layers replace `times`, which are the project's own by default.

    Raises:
        BadInput: options that no deployment can have, a measured table of another model.
        OutOfMemory: no allowed deployment fits.
    """
    slo = slo or Slo()
    if measured is not None:
        _check_measured(measured, model, machine, options)
        times = layer_times(machine, measured=measured)
    longest = options.max_model_len or _longest(model, demand)
    check_length(model, longest)
    requests = demand.trace
    if requests is None and not (demand.is_busy or demand.is_free):
        requests = demand.drawn.requests(longest)
    if requests is not None:
        check_tokens(requests, longest)
        longest = options.max_model_len or max(request.tokens for request in requests)
    options = replace(options, max_model_len=longest)
    looking = Search(model, machine, options, demand, requests, slo, times)
    price = quote(machine.instance.name, kind, as_of=as_of, rows=rows)
    if demand.is_busy or (requests is not None and _is_without_rate(demand, longest)):
        found = _for_clients(looking, price, slo)
    else:
        found = _for_rate(looking, price, slo, spare, tell)
    if measured is not None:
        passed = f"prefill and decode of {found.deployment.engine.max_num_seqs} sequences at most"
        matching.check_used(measured, found.deployment.steps.sources, passed)
    return replace(found, fewer=looking.smaller_split(found.deployment))


def _is_without_rate(demand: Demand, longest: int) -> bool:
    """True if requests wait for others to end, or all come at once."""
    if demand.trace is not None and is_closed(demand.trace):
        return True
    return RequestPattern(demand.drawn, demand.trace, longest).rate_per_s is None


def _for_clients(looking: Search, price: Quote, slo: Slo) -> ServingPlan:
    """The plan for clients that wait for answers, or for a deployment kept busy."""
    trial, demand = looking.best(), looking.demand
    deployment, seed = trial.deployment, demand.drawn.seed
    load, count = looking.requests, 1.0
    if load is None:
        is_whole = demand.is_saved or deployment.options.prefill_replicas
        replicas = deployment.replicas if is_whole else 1  # with clients of its own, all are alike
        some, count = replace(deployment, replicas=replicas), deployment.replicas / replicas
        load = demand.busy(some)
        shown = serve(some, load, router=demand.router, seed=seed).times(count)
    else:
        shown = serve(deployment, load, router=demand.router, seed=seed)
    answer = measured_answer(deployment, demand, slo) if slo else None
    return ServingPlan(
        deployment,
        shown,
        load,
        price,
        _usd(shown, deployment, price),
        _is_met(shown, slo),
        trial.tried,
        answer,
    )


def _for_rate(
    looking: Search, price: Quote, slo: Slo, spare: Spare | None, tell: Tell
) -> ServingPlan:
    """The plan for requests that come at a rate, or at the most that is kept."""
    demand, longest = looking.demand, looking.options.max_model_len or 0
    answer = capacity_answer(looking.deployments(), demand, longest, slo, spare=spare, tell=tell)
    deployment = answer.deployment
    tell(f"latencies of {layout(deployment)}")
    load, shown = _final_run(looking, answer)
    is_met = answer.nearest is None and (not slo or (answer.load_per_s or 0.0) <= answer.most_per_s)
    if answer.nearest is None and (demand.trace is not None or demand.is_saved):
        is_met = _is_met(shown, slo)
    found = ServingPlan(
        deployment,
        shown,
        load,
        price,
        _usd(shown, deployment, price),
        is_met,
        answer.tried,
        answer,
    )
    asked = [answer.load_per_s] if answer.load_per_s and is_met else []
    points = curve(answer.test, answer.capacity, answer.sizing, found.usd_per_hour, asked)
    answer = replace(answer, curve=points)
    answer = other_instances(answer, looking.model, looking.machine, looking.options, slo)
    return replace(found, answer=answer)


def _final_run(looking: Search, answer: CapacityAnswer) -> tuple[Load, ServingResult]:
    """The load of the final run and its figures.

    Requests of a trace, or that are saved, are served by all replicas. Of a drawn load each unit
    has a part like that of all others, and so has each of its replicas.
    """
    demand, test = looking.demand, answer.test
    router, seed = demand.router, demand.drawn.seed
    if answer.load_per_s is None or answer.nearest is not None:
        load = test.pattern.one_by_one(WAVES)
        return load, serve(test.deployment, load, router=router, seed=seed)
    if demand.trace is not None or demand.is_saved:
        load = looking.requests or test.pattern.load(answer.load_per_s, _SHOWN_RUN)
        return load, serve(answer.deployment, load, router=router, seed=seed)
    parts = test.cells * answer.sizing.units
    count = _SHOWN_RUN if looking.requests is None else len(looking.requests)
    load = test.pattern.load(answer.load_per_s / parts, min(count, _SHOWN_RUN), test.cells)
    return load, serve(test.cell, load, router=router, seed=seed).times(parts)


def _usd(shown: ServingResult, deployment: Deployment, price: Quote) -> Interval | None:
    """USD for a million output tokens; None without a public price."""
    if price.usd_per_hour is None:
        return None
    usd_per_s = deployment.instances * price.usd_per_hour / 3600
    rate = shown.figures["output_tokens_per_s"]
    return Interval(*(usd_per_s / per_s * 1e6 for per_s in (rate.p90, rate.p50, rate.p10)))


def _check_measured(
    table: MeasuredTimes, model: Architecture, machine: Machine, options: ServerOptions
) -> None:
    """Refuse a measured table that covers none of the layouts of the search."""
    tensors = [options.tensor] if options.tensor else legal_tensors(model, machine)
    splits = [Split(tensor, options.expert) for tensor in tensors]
    models = [served_model(model, options, machine)] + ([options.draft] if options.draft else [])
    cases = [(model, split) for model in models for split in splits]
    matching.check(table, machine, (Phase.PREFILL, Phase.DECODE), cases)


def _longest(model: Architecture, demand: Demand) -> int:
    """Tokens of the longest sequence: of the demand; lengths without limit end at positions."""
    longest = demand.longest
    is_limited = demand.trace is not None or None not in (
        demand.drawn.inputs.longest,
        demand.drawn.outputs.longest,
    )
    return longest if is_limited or not model.max_positions else min(longest, model.max_positions)


def _is_met(shown: ServingResult, slo: Slo) -> bool:
    values = {name: figure.p50 for name, figure in shown.figures.items()}
    return slo.is_met(RunFigures(values, {}))
