"""Services of a scenario: replicas and their rate (given or planned), demand, start times."""

from __future__ import annotations

from typing import Final

from trnsim.place.machine import machine
from trnsim.system.fleet import demand, demand_file
from trnsim.system.fleet.demand import Curve
from trnsim.system.fleet.fields import ServiceFields
from trnsim.system.fleet.scenario import Service
from trnsim.system.fleet.setting import Setting
from trnsim.system.serve.demand import Slo, open_rate_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.workload.config import read as read_config

_GIVEN_REPLICA_FIELDS: Final = ("replica_chips", "requests_per_s")
_PLANNED_REPLICA_FIELDS: Final = ("slo_ttft_s", "slo_tpot_s", "input_tokens", "output_tokens")


def service_of(name: str, fields: ServiceFields, setting: Setting) -> Service:
    """The service that `fields` describe.

    Raises:
        BadInput: a field is missing or illegal.
    """
    chips, per_s, basis = _replica(name, fields, setting)
    ultraserver_chips = setting.fleet.ultraserver_chips
    if ultraserver_chips % chips and chips % ultraserver_chips:
        raise fields.refused(
            "replica_chips" if "replica_chips" in fields else "model",
            f"replicas of {chips} chips; legal: a divisor or a multiple of "
            f"{ultraserver_chips}, the chips of an UltraServer",
        )
    return Service(
        name=name,
        replica_chips=chips,
        requests_per_s=per_s,
        drain_s=fields.drain_s,
        start_s=fields.weights_s + fields.programs_s,
        usd_per_missed_request=fields.usd_per_missed_request,
        curve=_curve(fields, setting),
        basis=basis,
    )


def _replica(name: str, fields: ServiceFields, setting: Setting) -> tuple[int, float, str]:
    """Chips of a replica, its requests a second, and their source.

    Raises:
        BadInput: both are given and planned, or neither.
    """
    if not fields.model:
        for key in _PLANNED_REPLICA_FIELDS:
            if key in fields:
                raise fields.refused(key, "it goes with model, which is not given")
        if fields.replica_chips is None or fields.requests_per_s is None:
            missing_key = next(key for key in _GIVEN_REPLICA_FIELDS if key not in fields)
            raise fields.refused(missing_key, "give replica_chips and requests_per_s, or model")
        return fields.replica_chips, fields.requests_per_s, "given"
    for key in _GIVEN_REPLICA_FIELDS:
        if key in fields:
            raise fields.refused(key, "model is given, from which it is planned: give one of them")
    setting.tell(f"replicas of {name}")
    return _planned_replica(fields, setting)


def _planned_replica(fields: ServiceFields, setting: Setting) -> tuple[int, float, str]:
    """A planned replica: its chips, its capacity in requests a second, and the source in words.

    Raises:
        BadInput: there is no SLO, or no layout keeps it.
    """
    slo = Slo(fields.slo_ttft_s, fields.slo_tpot_s)
    if not slo:
        raise fields.refused("slo_ttft_s", "a model is planned within an SLO: slo_ttft_s, _tpot_s")
    demand_lengths = open_rate_demand(fields.input_tokens, fields.output_tokens)
    model = read_config(setting.model_file(fields))
    best_plan = plan(model, machine(setting.instance), ServerOptions(), demand_lengths, slo=slo)
    if not best_plan.is_met or not best_plan.most_per_s:
        raise fields.refused("model", "no layout on this instance keeps the SLO at any load")
    chips = best_plan.deployment.instances * machine(setting.instance).instance.count
    return (
        chips,
        best_plan.most_per_s,
        f"planned: {best_plan.deployment.instances} x {setting.instance}",
    )


def _curve(fields: ServiceFields, setting: Setting) -> Curve:
    """The demand: a table beside the scenario, or shapes of a day and a week."""
    shape = fields.demand
    if isinstance(shape, str):
        table = setting.path(fields, "demand")
        return demand_file.read(table, setting.zone, setting.start, setting.steps)
    return demand.shaped_curve(
        setting.start,
        setting.steps,
        shape.peak_requests_per_s,
        shape.hours,
        shape.weekdays,
        (shape.p10, shape.p90),
    )
