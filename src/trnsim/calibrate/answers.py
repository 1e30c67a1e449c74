"""Answers of commands as estimates that a measured time can stand beside.

The values of an answer are its JSON; which figures it has follows from its schema:

| answer | figures |
|---|---|
| plan-infer, plan-layer, plan-train, plan-collective, compile | time |
| plan-train | tokens_per_s of one rank |
| plan-train, plan-infer | units_per_s of one instance |
| plan-serve | tpot (which is the time), ttft |
| run | time of its only kernel |

Causes that a factor of the site applies to are those of `trnsim.estimate.site`; all others, such as
the host between steps, count as fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from trnsim.arch import TARGETS
from trnsim.calibrate.row import CauseTime, EstimatedFigure
from trnsim.errors import BadInput
from trnsim.estimate.choice import (
    largest_peak,
    published_memory_share,
    published_products_share,
)
from trnsim.estimate.estimate import QUANTILES
from trnsim.estimate.site import (
    EXCHANGES_FAMILY,
    PROGRAMS_FAMILY,
    collective_cause,
    family_of,
)
from trnsim.place.machine import Machine, machine
from trnsim.site import KERNELS_FAMILY
from trnsim.workload.operators import Phase

Values = Mapping[str, Any]
Asked = Collection[tuple[str, str]]
"""Chips and families of times that an answer asked for."""

TIME, TTFT, TPOT = "time", "ttft", "tpot"
RATE, INSTANCE_RATE = "tokens_per_s", "units_per_s"
"""Rates: tokens a second of one rank, and tokens or items a second of one instance."""
_LAYER_CAUSES: Final = ("products", "weights", "KV", "elements", "scores", "fixed")
_EXCHANGES: Final = ("exchanges", "tensor", "context", "expert", "data")
_WITH_ITS_FAMILY: Final = ("bubble", "computed again")
"""Causes that are sums of others."""
_OUTSIDE: Final = ("call", "optimizer", "draft")
_HOST: Final = "host"
_OTHERS: Final = "prompts of others"
_CAUSAL: Final = 0.5
"""Least part of the products of a causal pass that are not masked."""


def figures_of(schema: str, values: Any, asked: Asked = ()) -> dict[str, EstimatedFigure]:
    """The figures of an answer, by name.

    Args:
        schema: the schema of the answer, with its version.
        values: its JSON.
        asked: chips and families whose times it asked for.

    Raises:
        BadInput: the answer is of several platforms, or of a command without a time to measure.
    """
    name = schema.partition("/")[0]
    if name not in _READERS:
        legal = "plan infer, plan layer, plan train, plan serve, plan collective, compile and run"
        raise BadInput(f"no time of it can be measured; legal: {legal}")
    if isinstance(values, list):
        raise BadInput(f"it answers for {len(values)} platforms; legal: one, as --on trn2")
    return _READERS[name](values, asked)


def _infer(values: Values, asked: Asked) -> dict[str, EstimatedFigure]:
    where, estimate = machine(values["instance"]), values["estimate"]
    family = _family(where, asked, Phase.ENCODE)
    parts, fixed_s = _split(where, estimate["parts_s"], family, is_host_part=True)
    bound_s = _products_bound(where, family, estimate["parts_s"])
    time = _estimated(where, family, estimate, parts, fixed_s, bound_s)
    return {TIME: time, INSTANCE_RATE: replace(time, units=values["copies"] * values["batch"])}


def _family(where: Machine, asked: Asked, usual: str) -> str:
    """The only family that was asked for; of several, the one with no phase of its own."""
    families = sorted({family for chip, family in asked if chip == where.chip.name})
    phases = {family_of(where.chip, phase) for phase in Phase}
    own = [family for family in families if family not in phases]
    return (own or families or [family_of(where.chip, usual)])[0]


def _layer(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    where, layer = machine(values["platform"]), values["answer"]
    family = family_of(where.chip, values["phase"])
    width = math.exp(QUANTILES["p90"] * layer["spread"])
    time_s = layer["time_s"]
    estimate = {"p50_s": time_s, "p10_s": time_s / width, "p90_s": time_s * width}
    parts, fixed_s = _split(where, layer["parts_s"], family, is_host_part=True)
    bound_s = _pass_bound(where, values["phase"], layer["parts_s"])
    return {TIME: _estimated(where, family, estimate, parts, fixed_s, bound_s)}


def _train(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    where, estimate = machine(values["instance"], values["instances"]), values["estimate"]
    family = family_of(where.chip, Phase.TRAIN)
    parts, fixed_s = _split(where, estimate["parts_s"], family)
    layout = values["layout"]
    best = largest_peak(where) * where.ranks_per_chip / float(where.peak(layout["dtype"]))
    bound_s = values["mfu"] * estimate["p50_s"] / max(best, 1.0)
    step = _estimated(where, family, estimate, parts, fixed_s, bound_s)
    ranks = math.prod(layout[axis] for axis in ("tensor", "pipeline", "data", "context"))
    tokens = layout["global_batch"] * layout["sequence"] / ranks
    whole = layout["global_batch"] * layout["sequence"] / values["instances"]
    rates = {RATE: replace(step, units=tokens), INSTANCE_RATE: replace(step, units=whole)}
    return {TIME: step, **rates}


def _serve(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    where = machine(values["instance"])
    decode, prefill = (family_of(where.chip, phase) for phase in (Phase.DECODE, Phase.PREFILL))
    figures: dict[str, EstimatedFigure] = {}
    step = values["decode_step"]
    if step is not None and "tpot_p50_s" in values:
        causes = dict(values["token_parts_s"])
        others_s = causes.pop(_OTHERS, 0.0)
        parts, fixed_s = _split(where, causes, decode, is_served=True)
        parts = (*parts, CauseTime(prefill, "", others_s))
        bound_s = _pass_bound(where, Phase.DECODE, step["parts_s"])
        figures[TPOT] = _scaled(where, decode, values["tpot_p50_s"], parts, fixed_s, bound_s)
        figures[TIME] = figures[TPOT]
    filling = values["prefill_step"]
    if filling is not None and "ttft_p50_s" in values:
        parts, fixed_s = _split(where, filling["parts_s"], prefill, is_served=True)
        ttft = values["ttft_p50_s"]
        queue_s = values["ttft_queue_p50_s"]["p50"]
        step_s = fixed_s + sum(part.time_s for part in parts)
        fixed_s += max(ttft["p50"] - step_s - queue_s, 0.0)  # the host, around all steps
        parts = (*parts, CauseTime(prefill, "", queue_s))
        one_s = _pass_bound(where, Phase.PREFILL, filling["parts_s"]) / filling["batch"]
        figures[TTFT] = _scaled(where, prefill, ttft, parts, fixed_s, one_s)
    return figures


def _collective(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    where, time_s = machine(values["instance"]), values["time_s"]
    family = family_of(where.chip, EXCHANGES_FAMILY)
    part = CauseTime(family, collective_cause(values["floor"]), time_s["p50"])
    return {TIME: _scaled(where, family, time_s, (part,), 0.0, 0.0)}


def _compile(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    where, estimate = machine(values["target"]), values["estimate"]
    phases = [source for source in estimate["sources"] if source in tuple(Phase)]
    family = family_of(where.chip, phases[0] if phases else PROGRAMS_FAMILY)
    if not phases:
        parts = tuple(CauseTime(family, "", time_s) for time_s in estimate["parts_s"].values())
        return {TIME: _estimated(where, family, estimate, parts, 0.0, values["bound_s"])}
    parts, fixed_s = _split(where, estimate["parts_s"], family, is_host_part=True)
    return {TIME: _estimated(where, family, estimate, parts, fixed_s, values["bound_s"])}


def _run(values: Values, _asked: Asked) -> dict[str, EstimatedFigure]:
    profiles = [profile for kernel in values["kernels"] for profile in kernel["profiles"]]
    if len(profiles) != 1:
        raise BadInput(f"it runs {len(profiles)} kernels; legal: one, as trnsim run FILE KERNEL")
    core = profiles[0]["summary"]
    where = next(each for each in TARGETS.values() if each.core.name == core["target"])
    time_s = core["total_time_s"]
    parts = (CauseTime(KERNELS_FAMILY, "", time_s),)
    ends = core["total_time_p10_s"], core["total_time_p90_s"]
    return {TIME: EstimatedFigure(where.chip, KERNELS_FAMILY, time_s, parts, 0.0, *ends)}


def _split(
    where: Machine,
    parts_s: Mapping[str, float],
    family: str,
    *,
    is_host_part: bool = False,
    is_served: bool = False,
) -> tuple[tuple[CauseTime, ...], float]:
    """Causes that factors apply to, and the seconds of all others."""
    exchanges = family_of(where.chip, EXCHANGES_FAMILY)
    outside = _OUTSIDE if is_host_part else (*_OUTSIDE, _HOST)
    parts: list[CauseTime] = []
    fixed_s = 0.0
    for cause, time_s in parts_s.items():
        if cause in _EXCHANGES:
            parts.append(CauseTime(exchanges, "", time_s))
        elif cause in _WITH_ITS_FAMILY:
            parts.append(CauseTime(family, "", time_s))
        elif cause in outside or (is_served and cause not in _LAYER_CAUSES):
            fixed_s += time_s
        else:
            parts.append(CauseTime(family, cause, time_s))
    return tuple(part for part in parts if part.time_s), fixed_s


def _estimated(
    where: Machine,
    family: str,
    estimate: Values,
    parts: tuple[CauseTime, ...],
    fixed_s: float,
    bound_s: float,
) -> EstimatedFigure:
    ends = {quantile: estimate[f"{quantile}_s"] for quantile in ("p10", "p50", "p90")}
    return _scaled(where, family, ends, parts, fixed_s, bound_s)


def _scaled(
    where: Machine,
    family: str,
    ends: Values,
    parts: tuple[CauseTime, ...],
    fixed_s: float,
    bound_s: float,
) -> EstimatedFigure:
    """An estimate whose causes are scaled to add up to its time."""
    time_s = ends["p50"]
    total_s = fixed_s + sum(part.time_s for part in parts)
    scale = time_s / total_s if total_s else 1.0
    return EstimatedFigure(
        chip=where.chip.name,
        family=family,
        time_s=time_s,
        parts=tuple(CauseTime(p.family, p.cause, scale * p.time_s) for p in parts if p.time_s),
        fixed_s=scale * fixed_s,
        p10_s=ends["p10"],
        p90_s=ends["p90"],
        bound_s=bound_s,
    )


def _pass_bound(where: Machine, phase: str, parts_s: Mapping[str, float]) -> float:
    """Seconds that products at the largest peak and weights at HBM's published rate take.

    Of a causal pass half of the products count, as the other half may be masked.
    """
    unmasked = 1.0 if phase == Phase.ENCODE else _CAUSAL
    products_s = unmasked * _products_bound(where, family_of(where.chip, phase), parts_s)
    weights_s = parts_s.get("weights", 0.0)
    if weights_s:
        weights_s += parts_s.get("products", 0.0)
    return max(products_s, weights_s * published_memory_share(where))


def _products_bound(where: Machine, family: str, parts_s: Mapping[str, float]) -> float:
    """Seconds of products at the largest published peak of the chip."""
    return parts_s.get("products", 0.0) * published_products_share(where, family)


_READERS: Final[dict[str, Callable[[Values, Asked], dict[str, EstimatedFigure]]]] = {
    "plan-infer": _infer,
    "plan-layer": _layer,
    "plan-train": _train,
    "plan-serve": _serve,
    "plan-collective": _collective,
    "compile": _compile,
    "run": _run,
}
