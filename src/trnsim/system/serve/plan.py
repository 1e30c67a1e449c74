"""Plans: the layout and batch that serve a load for the least, and the most load within an SLO."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.estimate import matching
from trnsim.estimate.choice import layer_times
from trnsim.facts import Interval
from trnsim.price import Quote, quote
from trnsim.system.serve.demand import WAVES, Demand, Slo
from trnsim.system.serve.figures import Figures, Served, once, serve
from trnsim.system.serve.load import Load, check_tokens
from trnsim.system.serve.options import Options
from trnsim.system.serve.search import Fewer, Found, Search
from trnsim.system.serve.server import Deployment, check_length, legal_tensors, served
from trnsim.workload.operators import Phase, Split

if TYPE_CHECKING:
    from datetime import date

    from trnsim.arch.catalogue import Catalogue
    from trnsim.estimate.measured import Measured
    from trnsim.estimate.times import LayerTimes
    from trnsim.place.machine import Machine
    from trnsim.workload.architecture import Architecture

_SHOWN: Final = 1024
"""Requests of the run at the most load within an SLO."""
_LOWERED: Final = 24
_LOWER: Final = 0.97
"""How often, and to what part of it, a rate is lowered that a longer run does not keep."""


@dataclass(frozen=True)
class Plan:
    """A deployment that serves a demand.

    Attributes:
        deployment: the layout.
        served: its figures under the demand.
        load: the requests.
        quote: price of an instance.
        usd_per_million_tokens: USD for a million output tokens, prompts included; None without a
            public price.
        most_per_s: requests a second within the SLO; None without one.
        is_met: whether the demand itself is served within it.
        tried: layouts that were compared.
        fewer: fewer tensor ranks that are not slower than those that were asked for, or None.
    """

    deployment: Deployment
    served: Served
    load: Load
    quote: Quote
    usd_per_million_tokens: Interval | None
    most_per_s: float | None
    is_met: bool
    tried: int
    fewer: Fewer | None = None


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
    measured: Measured | None = None,
) -> Plan:
    """The best deployment of `model` for `demand`, where `options` leave a choice.

    The best costs the least for a token among those that keep the SLO; of equal ones, the faster.
    A user's `measured` times of layers win over `times`, which are the project's own by default.

    Raises:
        BadInput: options that no deployment can have, a measured table of another model.
        OutOfMemory: nothing that may be chosen fits.
    """
    slo = slo or Slo()
    if measured is not None:
        _check_measured(measured, model, machine, options)
        times = layer_times(machine, measured=measured)
    longest = options.max_model_len or _longest(model, demand)
    check_length(model, longest)
    given = demand.trace
    if given is None and not demand.is_busy:
        given = demand.drawn.requests(longest)
    if given is not None:
        check_tokens(given, longest)
        longest = options.max_model_len or max(one.tokens for one in given)
    options = replace(options, max_model_len=longest)
    looking = Search(model, machine, options, demand, given, slo, times)
    found = looking.best()
    fewer = looking.fewer(found)
    load, found, shown = _shown(demand, given, slo, found)
    if measured is not None:
        passed = f"prefill and decode of {found.deployment.engine.max_num_seqs} sequences at most"
        matching.check_used(measured, found.deployment.steps.sources, passed)
    price = quote(machine.instance.name, kind, as_of=as_of, rows=rows)
    hourly = price.usd_per_hour
    return Plan(
        found.deployment,
        shown,
        load,
        price,
        None if hourly is None else _usd(shown, found.deployment.instances * hourly / 3600),
        found.most_per_s,
        _is_met(shown, slo),
        found.tried,
        fewer,
    )


def _usd(shown: Served, usd_per_s: float) -> Interval:
    """USD for a million output tokens."""
    rate = shown.figures["output_tokens_per_s"]
    return Interval(*(usd_per_s / one * 1e6 for one in (rate.p90, rate.p50, rate.p10)))


def _check_measured(
    table: Measured, model: Architecture, machine: Machine, options: Options
) -> None:
    """Refuse a table that is of none of the layouts that a search may take."""
    tensors = [options.tensor] if options.tensor else legal_tensors(model, machine)
    splits = [Split(tensor, options.expert) for tensor in tensors]
    models = [served(model, options, machine)] + ([options.draft] if options.draft else [])
    cases = [(one, split) for one in models for split in splits]
    matching.check(table, machine, (Phase.PREFILL, Phase.DECODE), cases)


def _shown(
    demand: Demand, given: Load | None, slo: Slo, found: Found
) -> tuple[Load, Found, Served]:
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


def _kept(demand: Demand, slo: Slo, found: Found) -> tuple[Load, Found]:
    """The most load that keeps the SLO, or one client where none does."""
    deployment, longest = found.deployment, found.deployment.engine.max_model_len
    most_per_s = found.most_per_s or 0.0
    for _ in range(_LOWERED if most_per_s else 0):
        count = max(_SHOWN, math.ceil(WAVES * most_per_s * found.e2e_s))
        load = replace(demand.drawn.at_rate(most_per_s), count=count).requests(longest)
        figures = once(deployment, load, router=demand.router, seed=demand.drawn.seed)[1]
        if slo.is_met(figures):
            return load, replace(found, most_per_s=most_per_s)
        most_per_s *= _LOWER
    drawn = replace(demand.drawn, concurrency=1, rate_per_s=0.0, ramp_s=0.0, count=WAVES)
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
