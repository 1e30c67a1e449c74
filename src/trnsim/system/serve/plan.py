"""Plans: the cheapest layout and batch for a load, and the highest load within an SLO."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.estimate import matching
from trnsim.estimate.choice import layer_times
from trnsim.estimate.measured import Measured
from trnsim.estimate.times import LayerTimes
from trnsim.facts import Interval
from trnsim.place.machine import Machine
from trnsim.price import Quote, quote
from trnsim.system.serve.demand import WAVES, Demand, Slo
from trnsim.system.serve.figures import RunFigures, ServingResult, run_once, serve
from trnsim.system.serve.load import Load, check_tokens
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.search import Search, SmallerSplit, Trial
from trnsim.system.serve.server import Deployment, check_length, legal_tensors, served_model
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Phase, Split

_LEAST_SHOWN_REQUESTS: Final = 1024
"""Requests of the run at the most load within an SLO."""
_MOST_LOWERINGS: Final = 24
_RATE_FACTOR: Final = 0.97
"""How often, and to what part of it, a rate is lowered that a longer run does not keep."""


@dataclass(frozen=True)
class ServingPlan:
    """A deployment that serves a demand.

    Attributes:
        deployment: the layout.
        served: its figures under the demand.
        load: the requests.
        quote: price of an instance.
        usd_per_million_tokens: USD for a million output tokens, prompts included; None without a
            public price.
        most_per_s: most requests a second within the SLO; None without one.
        is_met: whether the demand itself is served within the SLO.
        tried: layouts that were compared.
        fewer: fewer tensor ranks that are not slower than the requested ones, or None.
    """

    deployment: Deployment
    served: ServingResult
    load: Load
    quote: Quote
    usd_per_million_tokens: Interval | None
    most_per_s: float | None
    is_met: bool
    tried: int
    fewer: SmallerSplit | None = None


def plan(
    model: Architecture,
    machine: Machine,
    options: ServerOptions,
    demand: Demand,
    *,
    slo: Slo | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
    times: LayerTimes | None = None,
    measured: Measured | None = None,
) -> ServingPlan:
    """The best deployment of `model` for `demand` among those that `options` allow.

    The best has the lowest cost of a token within the SLO; of equal ones, the faster is taken.
    A user's `measured` times of layers replace `times`, which are the project's own by default.

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
    if requests is None and not demand.is_busy:
        requests = demand.drawn.requests(longest)
    if requests is not None:
        check_tokens(requests, longest)
        longest = options.max_model_len or max(request.tokens for request in requests)
    options = replace(options, max_model_len=longest)
    looking = Search(model, machine, options, demand, requests, slo, times)
    trial = looking.best()
    fewer = looking.smaller_split(trial)
    load, trial, shown = _shown(demand, requests, slo, trial)
    if measured is not None:
        passed = f"prefill and decode of {trial.deployment.engine.max_num_seqs} sequences at most"
        matching.check_used(measured, trial.deployment.steps.sources, passed)
    price = quote(machine.instance.name, kind, as_of=as_of, rows=rows)
    hourly = price.usd_per_hour
    return ServingPlan(
        trial.deployment,
        shown,
        load,
        price,
        None if hourly is None else _usd(shown, trial.deployment.instances * hourly / 3600),
        trial.most_per_s,
        _is_met(shown, slo),
        trial.tried,
        fewer,
    )


def _usd(shown: ServingResult, usd_per_s: float) -> Interval:
    """USD for a million output tokens."""
    rate = shown.figures["output_tokens_per_s"]
    return Interval(*(usd_per_s / per_s * 1e6 for per_s in (rate.p90, rate.p50, rate.p10)))


def _check_measured(
    table: Measured, model: Architecture, machine: Machine, options: ServerOptions
) -> None:
    """Refuse a measured table that covers none of the layouts of the search."""
    tensors = [options.tensor] if options.tensor else legal_tensors(model, machine)
    splits = [Split(tensor, options.expert) for tensor in tensors]
    models = [served_model(model, options, machine)] + ([options.draft] if options.draft else [])
    cases = [(model, split) for model in models for split in splits]
    matching.check(table, machine, (Phase.PREFILL, Phase.DECODE), cases)


def _shown(
    demand: Demand, requests: Load | None, slo: Slo, trial: Trial
) -> tuple[Load, Trial, ServingResult]:
    """The load of the final run and its figures: the demand, or else the most within the SLO.

    The rate that a short run of one replica keeps is lowered until a long run of all keeps it.
    """
    deployment, seed = trial.deployment, demand.drawn.seed
    if requests is None and slo:
        requests, trial = _most_load(demand, slo, trial)
    if requests is not None:
        return requests, trial, serve(deployment, requests, router=demand.router, seed=seed)
    is_whole = demand.is_saved or deployment.options.prefill_replicas
    count = deployment.replicas if is_whole else 1  # with clients of its own, each is like another
    some = replace(deployment, replicas=count)
    load = demand.busy(some)
    shown = serve(some, load, router=demand.router, seed=seed)
    return load, trial, shown.times(deployment.replicas / count)


def _most_load(demand: Demand, slo: Slo, trial: Trial) -> tuple[Load, Trial]:
    """The highest load that keeps the SLO, or one client if none does."""
    deployment, longest = trial.deployment, trial.deployment.engine.max_model_len
    most_per_s = trial.most_per_s or 0.0
    for _ in range(_MOST_LOWERINGS if most_per_s else 0):
        count = max(_LEAST_SHOWN_REQUESTS, math.ceil(WAVES * most_per_s * trial.e2e_s))
        load = replace(demand.drawn.at_rate(most_per_s), count=count).requests(longest)
        figures = run_once(deployment, load, router=demand.router, seed=demand.drawn.seed)[1]
        if slo.is_met(figures):
            return load, replace(trial, most_per_s=most_per_s)
        most_per_s *= _RATE_FACTOR
    drawn = replace(demand.drawn, concurrency=1, rate_per_s=0.0, ramp_s=0.0, count=WAVES)
    return drawn.requests(longest), replace(trial, most_per_s=0.0)


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
