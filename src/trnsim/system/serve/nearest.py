"""The feasible layout and SLO nearest to an SLO that no layout of an instance type keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate.ported import Port
from trnsim.place.machine import Machine
from trnsim.system.serve.capacity import SHORT_RUN, LoadTest, RequestPattern, saturated_per_s
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy, served_model
from trnsim.system.serve.tensor_degrees import legal_tensor_sizes
from trnsim.workload.architecture import Architecture

_SLACK: Final = 1.25
"""Ratio of a relaxed limit to the latency without load, so that it allows some load."""


@dataclass(frozen=True)
class MissedLimit:
    """A limit that a request breaks even without load.

    Attributes:
        name: the latency: ``ttft``, ``tpot`` or ``e2e``.
        least_s: the latency without load, in the nearest layout.
    """

    name: str
    limit_s: float
    least_s: float


@dataclass(frozen=True)
class Nearest:
    """The layout nearest to an SLO that no layout keeps.

    Attributes:
        test: load tests of one unit of the layout.
        missed_limits: the limits that the layout breaks without load.
        slo: the SLO with those limits relaxed as far as the layout needs.
        most_per_s: highest request rate of one unit within `slo`, in requests a second.
        instance_types: other instance types that keep the original SLO without load.
    """

    test: LoadTest
    missed_limits: tuple[MissedLimit, ...]
    slo: Slo
    most_per_s: float
    instance_types: tuple[str, ...] = ()


def nearest(tests: Sequence[LoadTest], slo: Slo) -> Nearest:
    """The layout whose worst ratio of unloaded latency to limit is the lowest."""
    test = min(tests, key=lambda test: test.limits(slo).worst(test.unloaded_figures())[1])
    values, limits = test.unloaded_figures().values, slo.by_name
    unloaded_values = {
        name: values.get(f"{name}_p{slo.reported_percentile}_s", 0.0) for name in limits
    }
    missed_limits = tuple(
        MissedLimit(name, limit, unloaded_values[name])
        for name, limit in limits.items()
        if unloaded_values[name] > limit
    )
    relaxed_s = {limit.name: _SLACK * limit.least_s for limit in missed_limits}
    relaxed_slo = replace(
        slo,
        ttft_s=relaxed_s.get("ttft", slo.ttft_s),
        tpot_s=relaxed_s.get("tpot", slo.tpot_s),
        latency_s=relaxed_s.get("e2e", slo.latency_s),
    )
    guess_per_s = 0.5 * saturated_per_s(test.deployment, test.pattern)
    most_per_s = test.highest_rate(test.limits(relaxed_slo), guess_per_s, SHORT_RUN)
    return Nearest(test, missed_limits, relaxed_slo, most_per_s)


def keeps_alone(
    model: Architecture, machine: Machine, options: ServerOptions, pattern: RequestPattern, slo: Slo
) -> bool:
    """True if some layout of a machine keeps an SLO without load, one sequence at a time.

    Of `options`, those of layouts and of compiled shapes are left open.
    """
    try:
        tensors = legal_tensor_sizes(served_model(model, options, machine), machine)
    except BadInput:
        return False
    for tensor in reversed(tensors):
        single_options = ServerOptions(
            tensor=tensor,
            max_num_seqs=1,
            max_model_len=pattern.longest,
            utilization=options.utilization,
            quantization=options.quantization,
            kv_dtype=options.kv_dtype,
            has_prefix_cache=options.has_prefix_cache,
            draft_tokens=options.draft_tokens,
            acceptance=options.acceptance,
            draft=options.draft,
            host_s=options.host_s,
            port=options.port if machine.is_neuron else Port.TUNED,
        )
        try:
            deployment = deploy(model, machine, single_options)
        except (BadInput, OutOfMemory):
            continue
        if slo.is_met(LoadTest(deployment, pattern, Router.ROUND_ROBIN).unloaded_figures()):
            return True
    return False
