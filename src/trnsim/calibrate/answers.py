"""The estimated figures of a command's answer, for comparison with measured times.

The values of an answer are its JSON; which figures it has follows from its schema:

| answer | figures |
|---|---|
| plan-infer, plan-layer, plan-train, plan-collective, compile | time |
| plan-train | tokens_per_s of one rank |
| plan-train, plan-infer | units_per_s of one instance |
| plan-serve | ttft, and tpot, which is also its time |
| run | time of its only kernel |

A figure's time is split by cause. A calibration fits a factor for each cause that
`trnsim.estimate.site` corrects; the seconds of all other causes, such as the host between steps,
are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from trnsim.arch import TARGETS
from trnsim.calibrate.row import CauseTime, EstimatedFigure
from trnsim.errors import BadInput
from trnsim.estimate.choice import largest_peak, published_memory_share, published_products_share
from trnsim.estimate.estimate import QUANTILES
from trnsim.estimate.site import EXCHANGES_FAMILY, PROGRAMS_FAMILY, collective_cause, family_of
from trnsim.place.machine import Machine, machine
from trnsim.site import KERNELS_FAMILY
from trnsim.workload.operators import Phase

Values = Mapping[str, Any]
ChipFamilies = Collection[tuple[str, str]]
"""Chips with families of times that went into an answer (`trnsim.site.recorded_families`)."""

TIME, TTFT, TPOT = "time", "ttft", "tpot"
RATE, INSTANCE_RATE = "tokens_per_s", "units_per_s"
"""Rates: tokens a second of one rank, and tokens or items a second of one instance."""
_LAYER_CAUSES: Final = ("products", "weights", "KV", "elements", "scores", "fixed")
_EXCHANGES: Final = ("exchanges", "tensor", "context", "expert", "data")
_SUMS: Final = ("bubble", "computed again")
"""Sums of the times of other causes: the factor of the family applies, that of no cause."""
_UNCORRECTED: Final = ("call", "optimizer", "draft")
"""Causes that no factor corrects."""
_HOST: Final = "host"
_OTHER_PROMPTS: Final = "prompts of others"
"""Cause in a token's time: prefills of other requests that the token waits for."""
_UNMASKED_SHARE: Final = 0.5
"""Part of the products of a causal pass that is not masked, at the least."""


def figures_of(schema: str, values: Any, families: ChipFamilies = ()) -> dict[str, EstimatedFigure]:
    """The figures of an answer, by name.

    Args:
        schema: the schema of the answer, with its version.
        values: its JSON.
        families: the chips and families of times that went into it.

    Raises:
        BadInput: the answer is of several platforms, or of a command without a time to measure, or
            all of its times are 0.
    """
    name = schema.partition("/")[0]
    if name not in _READERS:
        legal = "plan infer, plan layer, plan train, plan serve, plan collective, compile and run"
        raise BadInput(f"no time of it can be measured; legal: {legal}")
    if isinstance(values, list):
        raise BadInput(f"it answers for {len(values)} platforms; legal: one, as --on trn2")
    figures = _READERS[name](values, families)
    positive_figures = {name: figure for name, figure in figures.items() if figure.time_s > 0}
    if not positive_figures:
        raise BadInput(
            "its time is 0 s, of which a measurement is no multiple; legal: a question of work "
            "that takes time",
            fix="for example a collective of more than one rank",
        )
    return positive_figures


def _infer(values: Values, families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine, estimate = machine(values["instance"]), values["estimate"]
    family = _family(on_machine, families, Phase.ENCODE)
    parts, fixed_s = _split(on_machine, estimate["parts_s"], family, is_host_corrected=True)
    bound_s = _products_bound(on_machine, family, estimate["parts_s"])
    time = _estimated(on_machine, family, estimate, parts, fixed_s, bound_s)
    return {TIME: time, INSTANCE_RATE: replace(time, units=values["copies"] * values["batch"])}


def _family(machine: Machine, families: ChipFamilies, default: str) -> str:
    """The family of times on the machine's chip.

    A kind of model with a family of its own, such as "diffusion", goes before the phases of a pass;
    without any family it is that of the phase `default`.
    """
    on_chip = sorted({family for chip, family in families if chip == machine.chip.name})
    phases = {family_of(machine.chip, phase) for phase in Phase}
    of_kinds = [family for family in on_chip if family not in phases]
    return (of_kinds or on_chip or [family_of(machine.chip, default)])[0]


def _layer(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine, layer = machine(values["platform"]), values["answer"]
    family = family_of(on_machine.chip, values["phase"])
    width = math.exp(QUANTILES["p90"] * layer["spread"])
    time_s = layer["time_s"]
    estimate = {"p50_s": time_s, "p10_s": time_s / width, "p90_s": time_s * width}
    parts, fixed_s = _split(on_machine, layer["parts_s"], family, is_host_corrected=True)
    bound_s = _pass_bound(on_machine, values["phase"], layer["parts_s"])
    return {TIME: _estimated(on_machine, family, estimate, parts, fixed_s, bound_s)}


def _train(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine, estimate = machine(values["instance"], values["instances"]), values["estimate"]
    family = family_of(on_machine.chip, Phase.TRAIN)
    parts, fixed_s = _split(on_machine, estimate["parts_s"], family)
    layout = values["layout"]
    peak = float(on_machine.peaks[layout["dtype"]])
    peak_ratio = largest_peak(on_machine) * on_machine.ranks_per_chip / peak
    bound_s = values["mfu"] * estimate["p50_s"] / max(peak_ratio, 1.0)
    step = _estimated(on_machine, family, estimate, parts, fixed_s, bound_s)
    ranks = math.prod(layout[axis] for axis in ("tensor", "pipeline", "data", "context"))
    rank_tokens = layout["global_batch"] * layout["sequence"] / ranks
    instance_tokens = layout["global_batch"] * layout["sequence"] / values["instances"]
    rates = {
        RATE: replace(step, units=rank_tokens),
        INSTANCE_RATE: replace(step, units=instance_tokens),
    }
    return {TIME: step, **rates}


def _serve(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine = machine(values["instance"])
    decode, prefill = (family_of(on_machine.chip, phase) for phase in (Phase.DECODE, Phase.PREFILL))
    figures: dict[str, EstimatedFigure] = {}
    step = values["decode_step"]
    if step is not None and "tpot_p50_s" in values:
        causes = dict(values["token_parts_s"])
        others_s = causes.pop(_OTHER_PROMPTS, 0.0)
        parts, fixed_s = _split(on_machine, causes, decode, is_served=True)
        parts = (*parts, CauseTime(prefill, "", others_s))
        bound_s = _pass_bound(on_machine, Phase.DECODE, step["parts_s"])
        figures[TPOT] = _scaled(on_machine, decode, values["tpot_p50_s"], parts, fixed_s, bound_s)
        figures[TIME] = figures[TPOT]
    prefill_step = values["prefill_step"]
    if prefill_step is not None and "ttft_p50_s" in values:
        parts, fixed_s = _split(on_machine, prefill_step["parts_s"], prefill, is_served=True)
        ttft = values["ttft_p50_s"]
        queue_s = values["ttft_queue_p50_s"]["p50"]
        step_s = fixed_s + sum(part.time_s for part in parts)
        fixed_s += max(ttft["p50"] - step_s - queue_s, 0.0)  # time of the host around the steps
        parts = (*parts, CauseTime(prefill, "", queue_s))
        request_bound_s = (
            _pass_bound(on_machine, Phase.PREFILL, prefill_step["parts_s"]) / prefill_step["batch"]
        )
        figures[TTFT] = _scaled(on_machine, prefill, ttft, parts, fixed_s, request_bound_s)
    return figures


def _collective(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine, time_s = machine(values["instance"]), values["time_s"]
    family = family_of(on_machine.chip, EXCHANGES_FAMILY)
    part = CauseTime(family, collective_cause(values["floor"]), time_s["p50"])
    return {TIME: _scaled(on_machine, family, time_s, (part,), 0.0, 0.0)}


def _compile(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    on_machine, estimate = machine(values["target"]), values["estimate"]
    phases = [source for source in estimate["sources"] if source in tuple(Phase)]
    family = family_of(on_machine.chip, phases[0] if phases else PROGRAMS_FAMILY)
    if not phases:
        parts = tuple(CauseTime(family, "", time_s) for time_s in estimate["parts_s"].values())
        return {TIME: _estimated(on_machine, family, estimate, parts, 0.0, values["bound_s"])}
    parts, fixed_s = _split(on_machine, estimate["parts_s"], family, is_host_corrected=True)
    return {TIME: _estimated(on_machine, family, estimate, parts, fixed_s, values["bound_s"])}


def _run(values: Values, _families: ChipFamilies) -> dict[str, EstimatedFigure]:
    profiles = [profile for kernel in values["kernels"] for profile in kernel["profiles"]]
    if len(profiles) != 1:
        raise BadInput(f"it runs {len(profiles)} kernels; legal: one, as trnsim run FILE KERNEL")
    core = profiles[0]["summary"]
    target = next(target for target in TARGETS.values() if target.core.name == core["target"])
    time_s = core["total_time_s"]
    parts = (CauseTime(KERNELS_FAMILY, "", time_s),)
    interval_s = core["total_time_p10_s"], core["total_time_p90_s"]
    return {TIME: EstimatedFigure(target.chip, KERNELS_FAMILY, time_s, parts, 0.0, *interval_s)}


def _split(
    machine: Machine,
    parts_s: Mapping[str, float],
    family: str,
    *,
    is_host_corrected: bool = False,
    is_served: bool = False,
) -> tuple[tuple[CauseTime, ...], float]:
    """The parts that factors apply to, and the fixed seconds: all others.

    Args:
        machine: the machine.
        parts_s: seconds by cause.
        family: the family of the pass.
        is_host_corrected: True if a factor applies to the host's time too.
        is_served: True for a server's step, where factors apply to causes of layers and exchanges
            alone.
    """
    exchanges = family_of(machine.chip, EXCHANGES_FAMILY)
    uncorrected = _UNCORRECTED if is_host_corrected else (*_UNCORRECTED, _HOST)
    parts: list[CauseTime] = []
    fixed_s = 0.0
    for cause, time_s in parts_s.items():
        if cause in _EXCHANGES:
            parts.append(CauseTime(exchanges, "", time_s))
        elif cause in _SUMS:
            parts.append(CauseTime(family, "", time_s))
        elif cause in uncorrected or (is_served and cause not in _LAYER_CAUSES):
            fixed_s += time_s
        else:
            parts.append(CauseTime(family, cause, time_s))
    return tuple(part for part in parts if part.time_s), fixed_s


def _estimated(
    machine: Machine,
    family: str,
    estimate: Values,
    parts: tuple[CauseTime, ...],
    fixed_s: float,
    bound_s: float,
) -> EstimatedFigure:
    """The figure of an estimate in JSON."""
    quantiles_s = {name: estimate[f"{name}_s"] for name in QUANTILES}
    return _scaled(machine, family, quantiles_s, parts, fixed_s, bound_s)


def _scaled(
    machine: Machine,
    family: str,
    quantiles_s: Values,
    parts: tuple[CauseTime, ...],
    fixed_s: float,
    bound_s: float,
) -> EstimatedFigure:
    """The figure of a time's quantiles; its parts are scaled to add up to the median."""
    time_s = quantiles_s["p50"]
    total_s = fixed_s + sum(part.time_s for part in parts)
    scale = time_s / total_s if total_s else 1.0
    return EstimatedFigure(
        chip=machine.chip.name,
        family=family,
        time_s=time_s,
        parts=tuple(CauseTime(p.family, p.cause, scale * p.time_s) for p in parts if p.time_s),
        fixed_s=scale * fixed_s,
        p10_s=quantiles_s["p10"],
        p90_s=quantiles_s["p90"],
        bound_s=bound_s,
    )


def _pass_bound(machine: Machine, phase: str, parts_s: Mapping[str, float]) -> float:
    """The larger of two times: of products at the largest peak, of weights at HBM's published rate.

    Of a causal pass half of the products count, as the other half may be masked.
    """
    unmasked = 1.0 if phase == Phase.ENCODE else _UNMASKED_SHARE
    products_s = unmasked * _products_bound(machine, family_of(machine.chip, phase), parts_s)
    weights_s = parts_s.get("weights", 0.0)
    if weights_s:
        weights_s += parts_s.get("products", 0.0)
    return max(products_s, weights_s * published_memory_share(machine))


def _products_bound(machine: Machine, family: str, parts_s: Mapping[str, float]) -> float:
    """Seconds of products at the largest published peak of the chip."""
    return parts_s.get("products", 0.0) * published_products_share(machine, family)


_READERS: Final[dict[str, Callable[[Values, ChipFamilies], dict[str, EstimatedFigure]]]] = {
    "plan-infer": _infer,
    "plan-layer": _layer,
    "plan-train": _train,
    "plan-serve": _serve,
    "plan-collective": _collective,
    "compile": _compile,
    "run": _run,
}
