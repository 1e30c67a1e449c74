"""Training jobs of a scenario: their widths (chips), token rates, and costs of changing width."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from trnsim.place.machine import machine
from trnsim.system.fleet.fields import JobFields
from trnsim.system.fleet.scenario import HOUR_S, Level, TrainingJobKind
from trnsim.system.fleet.setting import Setting
from trnsim.system.train.best import Effort, best
from trnsim.system.train.estimate import usual_request
from trnsim.system.train.run import Reliability, goodput
from trnsim.workload.config import read as read_config

_MOST_LEVELS: Final = 64
_LAYOUTS_A_WIDTH: Final = 12
"""Layouts whose step is estimated for a width."""
_MILLION: Final = 1e6


def job_of(name: str, fields: JobFields, setting: Setting, block_chips: int) -> TrainingJobKind:
    """The job that `fields` describe, in widths of whole blocks.

    Raises:
        BadInput: a field is missing or illegal.
    """
    widths = _widths(fields, block_chips, setting.fleet.chips)
    rates, basis = _rates(name, fields, widths, setting)
    reliability = Reliability(
        setting.fleet.chip_mtbf_s,
        fields.checkpoint_s,
        fields.recovery_s,
        replacement_s=0.0,  # the simulator itself removes blocks that no spare replaces
        straggler_spread=fields.straggler_spread,
    )
    per_instance = setting.fleet.instance_chips
    levels = [Level(0, 0, 0.0, 1.0)]
    for chips, rate in zip(widths, rates, strict=True):
        share = goodput(chips, chips // per_instance, reliability)
        levels.append(
            Level(chips, chips // block_chips, rate / share.slowdown, share.kept_fraction)
        )
    return TrainingJobKind(
        name=name,
        count=fields.count,
        is_in_building=fields.within == "building",
        levels=tuple(levels),
        save_s=fields.save_s,
        restore_s=fields.restore_s + fields.programs_s,
        usd_per_token=_worth(fields, levels, setting),
        basis=basis,
    )


def _widths(fields: JobFields, block: int, fleet_chips: int) -> list[int]:
    """Chips of each width, from the smallest to the largest.

    Raises:
        BadInput: a width is not a number of whole blocks, or there are more than `_MOST_LEVELS`.
    """
    smallest_chips, largest_chips = fields.smallest_chips, fields.largest_chips
    step = fields.step_chips or block
    if smallest_chips > fleet_chips:
        raise fields.refused(
            "smallest_chips", f"legal: up to {fleet_chips:,}, the chips of the fleet"
        )
    if not smallest_chips <= largest_chips <= fleet_chips:
        raise fields.refused("largest_chips", f"legal: from {smallest_chips} to {fleet_chips:,}")
    for name, chips in (
        ("smallest_chips", smallest_chips),
        ("largest_chips", largest_chips),
        ("step_chips", step),
    ):
        if chips % block:
            raise fields.refused(name, f"legal: a multiple of {block}, the chips of a block")
    widths = [*range(smallest_chips, largest_chips, step), largest_chips]
    if len(widths) > _MOST_LEVELS:
        least_step = (
            math.ceil((largest_chips - smallest_chips) / (_MOST_LEVELS - 1) / block) * block
        )
        raise fields.refused(
            "step_chips",
            f"{len(widths)} widths of {step} chips more; legal: at most {_MOST_LEVELS} widths",
            f"give step_chips from {least_step} on",
        )
    return widths


def _rates(
    name: str, fields: JobFields, widths: list[int], setting: Setting
) -> tuple[list[float], str]:
    """Tokens a second at each width, interpolated linearly.

    Raises:
        BadInput: a table and a model are given, or neither; or the table lacks the first or last
            width.
    """
    if fields.model:
        if fields.tokens_per_s is not None:
            raise fields.refused("tokens_per_s", "model is given, from which it is planned")
        setting.tell(f"tokens a second of {name}")
        rates = _planned_rates(fields, sorted({widths[0], widths[-1]}), setting)
        basis = f"planned on {setting.instance}"
    else:
        rates, basis = _table(fields, widths), "given"
    return np.interp(widths, list(rates), list(rates.values())).tolist(), basis


def _table(fields: JobFields, widths: list[int]) -> dict[int, float]:
    rates = fields.tokens_per_s
    if rates is None:
        raise fields.refused("tokens_per_s", "give it, or model")
    if not min(rates) <= widths[0] <= widths[-1] <= max(rates):
        raise fields.refused(
            "tokens_per_s",
            f"from {min(rates)} to {max(rates)} chips; legal: from smallest_chips {widths[0]} to "
            f"largest_chips {widths[-1]}, or beyond",
        )
    return dict(sorted(rates.items()))


def _planned_rates(fields: JobFields, widths: list[int], setting: Setting) -> dict[int, float]:
    """Tokens a second at each width, of the best layout of a short search."""
    model = read_config(setting.model_file(fields))
    rates: dict[int, float] = {}
    for chips in widths:
        instances = chips // setting.fleet.instance_chips
        request = usual_request(model, machine(setting.instance, instances))
        step = best(
            model, setting.instance, instances, request, Effort(budget=_LAYOUTS_A_WIDTH)
        ).step
        rates[chips] = step.tokens_per_s_per_chip.p50 * chips
    return rates


def _worth(fields: JobFields, levels: list[Level], setting: Setting) -> float:
    """USD that a trained token is worth: as set, or the lowest cost of a token at any width."""
    if fields.usd_per_million_tokens is not None:
        return fields.usd_per_million_tokens / _MILLION
    hourly = setting.fleet.usd_per_chip_hour + setting.fleet.energy_usd_per_chip_hour("training")
    costs = [
        level.chips * hourly / (HOUR_S * level.kept_tokens_per_s)
        for level in levels
        if level.kept_tokens_per_s
    ]
    return min(costs, default=0.0)
