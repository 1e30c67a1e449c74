"""The nearest feasible layout where none of an instance keeps an SLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import Machine
from trnsim.system.serve.capacity import SHORT_RUN, LoadTest, RequestPattern, saturated_per_s
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy, legal_tensors, served_model
from trnsim.workload.architecture import Architecture

_SLACK: Final = 1.25
"""Limits of the nearest SLO over the latency of a request alone, so that some load is kept."""


@dataclass(frozen=True)
class MissedLimit:
    """A limit that a request alone breaks.

    Attributes:
        name: the name of the latency, as ``ttft``.
        limit_s: the limit.
        least_s: the latency of a request alone, in the layout that comes nearest.
    """

    name: str
    limit_s: float
    least_s: float


@dataclass(frozen=True)
class Nearest:
    """The layout that comes nearest to an SLO that none keeps.

    Attributes:
        test: runs of the layout that comes nearest.
        missed: the limits that it breaks.
        slo: limits that it keeps.
        most_per_s: most requests a second of a unit within those.
        others: instance types on which a request alone keeps the SLO.
    """

    test: LoadTest
    missed: tuple[MissedLimit, ...]
    slo: Slo
    most_per_s: float
    others: tuple[str, ...] = ()


def nearest(tests: Sequence[LoadTest], slo: Slo) -> Nearest:
    """The layout whose worst latency alone is the lowest against its limit."""
    test = min(tests, key=lambda each: each.limits(slo).worst(each.alone())[1])
    values, limits = test.alone().values, slo.by_name
    alone = {name: values.get(f"{name}_p{slo.rank}_s", 0.0) for name in limits}
    missed = tuple(
        MissedLimit(name, limit, alone[name])
        for name, limit in limits.items()
        if alone[name] > limit
    )
    wider = {each.name: _SLACK * each.least_s for each in missed}
    feasible = replace(
        slo,
        ttft_s=wider.get("ttft", slo.ttft_s),
        tpot_s=wider.get("tpot", slo.tpot_s),
        latency_s=wider.get("e2e", slo.latency_s),
    )
    guess = 0.5 * saturated_per_s(test.deployment, test.pattern)
    most = test.most(test.limits(feasible), guess, SHORT_RUN)
    return Nearest(test, missed, feasible, most)


def keeps_alone(
    model: Architecture, machine: Machine, options: ServerOptions, pattern: RequestPattern, slo: Slo
) -> bool:
    """True if some layout of a machine, with one sequence a replica, keeps an SLO alone."""
    try:
        tensors = legal_tensors(served_model(model, options, machine), machine)
    except BadInput:
        return False
    for tensor in reversed(tensors):
        single = ServerOptions(
            tensor=tensor,
            max_num_seqs=1,
            max_model_len=pattern.longest,
            quantization=options.quantization,
            kv_dtype=options.kv_dtype,
        )
        try:
            deployment = deploy(model, machine, single)
        except (BadInput, OutOfMemory):
            continue
        if slo.is_met(LoadTest(deployment, pattern, Router.ROUND_ROBIN).alone()):
            return True
    return False
