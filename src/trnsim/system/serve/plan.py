"""Serving plan: the cheapest deployment for a demand, its latencies, its capacity, its price."""

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
from trnsim.system.serve.load import Load, check_lengths, check_tokens, is_closed
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.ranking import Tell, layout
from trnsim.system.serve.search import Search, SmallerSplit
from trnsim.system.serve.server import (
    Deployment,
    check_generating,
    check_length,
    served_model,
)
from trnsim.system.serve.sizing import Spare
from trnsim.system.serve.tensor_degrees import legal_tensor_sizes
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Phase, Split

_REPORTED_RUN: Final = 2048
"""Requests, for one cell of a load test, of the run whose figures the plan reports."""


@dataclass(frozen=True)
class ServingPlan:
    """A deployment that serves a demand.

    Attributes:
        served: figures of the fleet under the demand.
        load: the requests of the run behind `served`; of a drawn load those of one equal part.
        usd_per_million_tokens: USD per million output tokens, the cost of prompts included; None
            without a public price.
        is_met: whether the demand itself is served within the SLO.
        tried: number of layouts compared.
        answer: the capacity of the deployment; None for a closed or saturating load without an SLO.
        smaller_split: fewer tensor ranks than requested that are not slower; None if there are
            none or none were requested.
    """

    deployment: Deployment
    served: ServingResult
    load: Load
    quote: Quote
    usd_per_million_tokens: Interval | None
    is_met: bool
    tried: int
    answer: CapacityAnswer | None = None
    smaller_split: SmallerSplit | None = None

    @property
    def most_per_s(self) -> float | None:
        """Highest request rate of the fleet within its limits, in requests a second.

        None without `answer`.
        """
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
    """The cheapest deployment of `model` for `demand` that `options` allow.

    For a demand with a rate it has the fewest instances that keep the SLO, spare included; for an
    open rate it is the layout with the highest capacity per instance; for clients that wait for
    answers the layout with the lowest cost of an output token.

    Args:
        model: the architecture.
        machine: the instance type.
        options: the user's settings; what they leave open is searched.
        demand: the requests.
        slo: latency limits; none by default.
        spare: the failure to survive, see `capacity_answer`.
        kind: how instances are bought, see `trnsim.price.quote`.
        as_of: date of the price; today by default.
        rows: the price catalogue; the project's own by default.
        times: times of layers; the project's own by default.
        measured: a user's measured times of layers, which replace `times`.
        tell: called with a line of progress.

    Raises:
        BadInput: options that no deployment can have, a measured table of another model.
        OutOfMemory: no allowed deployment fits.
    """
    slo = slo or Slo()
    if measured is not None:
        _check_measured(measured, model, machine, options)
        times = layer_times(machine, measured=measured)
    requests, longest = _requests_within(model, options, demand)
    options = replace(options, max_model_len=longest)
    search = Search(model, machine, options, demand, requests, slo, times)
    price = quote(machine.instance.name, kind, as_of=as_of, rows=rows)
    if demand.is_saturating or (requests is not None and _is_without_rate(demand, longest)):
        serving_plan = _client_plan(search, price, slo)
    else:
        serving_plan = _rate_plan(search, price, slo, spare, tell)
    if measured is not None:
        passes = (
            f"prefill and decode of {serving_plan.deployment.engine.max_num_seqs} sequences at most"
        )
        matching.check_used(measured, serving_plan.deployment.steps.sources, passes)
    return replace(serving_plan, smaller_split=search.smaller_split(serving_plan.deployment))


def _requests_within(
    model: Architecture, options: ServerOptions, demand: Demand
) -> tuple[Load | None, int]:
    """The requests of `demand`, None where their rate is still open, and the longest sequence.

    Raises:
        BadInput: the longest sequence, or a request, is longer than the model or the server allows.
        NotModelled: a model that does not generate tokens.
    """
    check_generating(model)
    longest = options.max_model_len or _longest(model, demand)
    check_length(model, longest)
    requests = demand.trace
    if requests is None and options.max_model_len:
        check_lengths(demand.synthetic, options.max_model_len)
    if requests is None and not (demand.is_saturating or demand.has_open_rate):
        requests = demand.synthetic.requests(longest)
    if requests is not None:
        check_tokens(requests, longest)
        longest = options.max_model_len or max(request.tokens for request in requests)
    return requests, longest


def _is_without_rate(demand: Demand, longest: int) -> bool:
    """True if the demand has no rate: a closed load, or all requests at once."""
    if demand.trace is not None and is_closed(demand.trace):
        return True
    return RequestPattern(demand.synthetic, demand.trace, longest).rate_per_s is None


def _client_plan(search: Search, price: Quote, slo: Slo) -> ServingPlan:
    """The plan for a closed load, requests all at once, or a saturating demand."""
    trial, demand = search.best(), search.demand
    deployment, seed = trial.deployment, demand.synthetic.seed
    load = search.requests
    if load is None:
        # Each replica has its own clients, so that all replicas are alike.
        is_whole = demand.is_saved or deployment.options.prefill_replicas
        part = replace(deployment, replicas=deployment.replicas if is_whole else 1)
        load = demand.saturating_load(part)
        result = serve(part, load, router=demand.router, seed=seed)
        result = result.scaled(deployment.replicas / part.replicas)
    else:
        result = serve(deployment, load, router=demand.router, seed=seed)
    answer = measured_answer(deployment, demand, slo) if slo else None
    return ServingPlan(
        deployment,
        result,
        load,
        price,
        _usd(result, deployment, price),
        _is_met(result, slo),
        trial.tried,
        answer,
    )


def _rate_plan(
    search: Search, price: Quote, slo: Slo, spare: Spare | None, tell: Tell
) -> ServingPlan:
    """The plan for an open load of a given rate, or of an open rate."""
    demand, longest = search.demand, search.options.max_model_len or 0
    answer = capacity_answer(search.deployments(), demand, longest, slo, spare=spare, tell=tell)
    deployment = answer.deployment
    tell(f"latencies of {layout(deployment)}")
    load, result = _final_run(search, answer)
    is_met = answer.nearest is None and (not slo or (answer.load_per_s or 0.0) <= answer.most_per_s)
    if answer.nearest is None and (demand.trace is not None or demand.is_saved):
        is_met = _is_met(result, slo)
    serving_plan = ServingPlan(
        deployment,
        result,
        load,
        price,
        _usd(result, deployment, price),
        is_met,
        answer.tried,
        answer,
    )
    loads_per_s = [answer.load_per_s] if answer.load_per_s and is_met else []
    points = curve(
        answer.test, answer.capacity, answer.sizing, serving_plan.usd_per_hour, loads_per_s
    )
    answer = replace(answer, curve=points)
    answer = other_instances(answer, search.model, search.machine, search.options, slo)
    return replace(serving_plan, answer=answer)


def _final_run(search: Search, answer: CapacityAnswer) -> tuple[Load, ServingResult]:
    """The run whose figures the plan reports: its load and its figures.

    A trace, or a load that is saved, runs on all replicas. Of any other drawn load one cell is run
    with its share, and its figures are scaled to the fleet: all cells are alike.
    """
    demand, test = search.demand, answer.test
    router, seed = demand.router, demand.synthetic.seed
    if answer.load_per_s is None or answer.nearest is not None:
        load = test.pattern.sequential_load(WAVES)
        return load, serve(test.deployment, load, router=router, seed=seed)
    if demand.trace is not None or demand.is_saved:
        load = search.requests or test.pattern.load(answer.load_per_s, _REPORTED_RUN)
        return load, serve(answer.deployment, load, router=router, seed=seed)
    parts = test.cells * answer.sizing.units
    count = _REPORTED_RUN if search.requests is None else len(search.requests)
    load = test.pattern.load(answer.load_per_s / parts, min(count, _REPORTED_RUN), test.cells)
    return load, serve(test.cell, load, router=router, seed=seed).scaled(parts)


def _usd(result: ServingResult, deployment: Deployment, price: Quote) -> Interval | None:
    """USD per million output tokens, as an interval; None without a public price."""
    if price.usd_per_hour is None:
        return None
    usd_per_s = deployment.instances * price.usd_per_hour / 3600
    return result.figures["output_tokens_per_s"].inverse(usd_per_s).scaled(1e6)


def _check_measured(
    table: MeasuredTimes, model: Architecture, machine: Machine, options: ServerOptions
) -> None:
    """Refuse a measured table that covers none of the layouts of the search."""
    tensors = [options.tensor] if options.tensor else legal_tensor_sizes(model, machine)
    splits = [Split(tensor, options.expert) for tensor in tensors]
    draft = options.served_draft
    models = [served_model(model, options, machine), *([] if draft is None else [draft])]
    cases = [(model, split) for model in models for split in splits]
    matching.check(table, machine, (Phase.PREFILL, Phase.DECODE), cases)


def _longest(model: Architecture, demand: Demand) -> int:
    """Tokens of the demand's longest sequence; unlimited lengths end at the model's positions."""
    longest = demand.longest
    is_limited = demand.trace is not None or None not in (
        demand.synthetic.inputs.longest,
        demand.synthetic.outputs.longest,
    )
    return longest if is_limited or not model.max_positions else min(longest, model.max_positions)


def _is_met(result: ServingResult, slo: Slo) -> bool:
    values = {name: figure.p50 for name, figure in result.figures.items()}
    return slo.is_met(RunFigures(values, {}))
