"""Services of a scenario: replicas and their rate, given or planned; demand; seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.place.machine import machine
from trnsim.system.fleet import demand, demand_file
from trnsim.system.fleet.scenario import HOUR_S, Service
from trnsim.system.serve.demand import Slo, kept_busy
from trnsim.system.serve.options import Options
from trnsim.system.serve.plan import plan
from trnsim.workload.config import read as read_config

if TYPE_CHECKING:
    from trnsim.system.fleet.demand import Curve
    from trnsim.system.fleet.fields import Fields
    from trnsim.system.fleet.setting import Setting

_GIVEN: Final = ("replica_chips", "requests_per_s")
_MODEL: Final = ("model", "slo_ttft_s", "slo_tpot_s", "input_tokens", "output_tokens")
SERVICE: Final = (
    *_GIVEN,
    *_MODEL,
    *("drain_s", "weights_s", "programs_s", "usd_per_missed_request", "demand"),
)
_SHAPE: Final = ("peak_requests_per_s", "hours", "weekdays", "p10", "p90")
_MOST_PER_S: Final = 1e12
_MOST_CHIPS: Final = 1_000_000
_MOST_TOKENS: Final = 10_000_000


def service_of(name: str, fields: Fields, setting: Setting) -> Service:
    """The service that `fields` describe.

    Raises:
        BadInput: a field is missing or not what is legal.
    """
    chips, per_s, basis = _replica(name, fields, setting)
    server = setting.fleet.ultraserver_chips
    if server % chips and chips % server:
        raise fields.refused(
            "replica_chips" if "replica_chips" in fields else "model",
            f"replicas of {chips} chips; legal: a divisor or a multiple of {server}, the chips of "
            "an UltraServer",
        )
    drain_s, weights_s, programs_s = (
        fields.number(one, least=0, most=HOUR_S, default=0.0)
        for one in ("drain_s", "weights_s", "programs_s")
    )
    return Service(
        name=name,
        replica_chips=chips,
        requests_per_s=per_s,
        drain_s=drain_s,
        start_s=weights_s + programs_s,
        usd_per_missed_request=fields.number(
            "usd_per_missed_request", least=0, most=1e9, default=0.0
        ),
        curve=_curve(fields, setting),
        basis=basis,
    )


def _replica(name: str, fields: Fields, setting: Setting) -> tuple[int, float, str]:
    """Chips of a replica, its requests a second, and where they are from.

    Raises:
        BadInput: both are given and planned, or neither.
    """
    if "model" not in fields:
        for one in _MODEL[1:]:
            if one in fields:
                raise fields.refused(one, "it goes with model, which is not given")
        chips = fields.whole("replica_chips", least=1, most=_MOST_CHIPS)
        return chips, fields.number("requests_per_s", least=1e-9, most=_MOST_PER_S), "given"
    for one in _GIVEN:
        if one in fields:
            raise fields.refused(one, "model is given, from which it is planned: give one of them")
    setting.tell(f"replicas of {name}")
    return _planned(fields, setting)


def _planned(fields: Fields, setting: Setting) -> tuple[int, float, str]:
    """Instances that serve a model within its SLO, and their most requests a second.

    Raises:
        BadInput: there is no SLO, or nothing keeps it.
    """
    seconds = {
        name: fields.number(name, least=1e-6, most=HOUR_S) if name in fields else None
        for name in ("slo_ttft_s", "slo_tpot_s")
    }
    slo = Slo(*seconds.values())
    if not slo:
        raise fields.refused("slo_ttft_s", "a model is planned within an SLO: slo_ttft_s, _tpot_s")
    tokens = [
        fields.whole(name, least=1, most=_MOST_TOKENS, default=usual)
        for name, usual in (("input_tokens", 2048), ("output_tokens", 256))
    ]
    model = read_config(setting.folder / fields.text("model"))
    found = plan(model, machine(setting.instance), Options(), kept_busy(*tokens), slo=slo)
    if not found.is_met or not found.most_per_s:
        raise fields.refused("model", "no layout on this instance keeps the SLO at any load")
    chips = found.deployment.instances * machine(setting.instance).instance.count
    return chips, found.most_per_s, f"planned: {found.deployment.instances} x {setting.instance}"


def _curve(fields: Fields, setting: Setting) -> Curve:
    """The demand: a table beside the scenario, or shapes of a day and a week."""
    if isinstance(fields.value("demand").content, str):
        table = setting.folder / fields.text("demand")
        return demand_file.read(table, setting.zone, setting.start, setting.steps)
    shape = fields.mapping("demand", _SHAPE)
    hours, weekdays = demand.HOURS, demand.WEEKDAYS
    if "hours" in shape:
        hours = shape.numbers("hours", demand.DAY_HOURS, least=0, most=1)
    if "weekdays" in shape:
        weekdays = shape.numbers("weekdays", demand.WEEK_DAYS, least=0, most=1)
    peak_per_s = shape.number("peak_requests_per_s", least=0, most=_MOST_PER_S)
    low = shape.number("p10", least=0, most=1, default=1.0)
    high = shape.number("p90", least=1, most=1000, default=1.0)
    return demand.generated(setting.start, setting.steps, peak_per_s, hours, weekdays, (low, high))
