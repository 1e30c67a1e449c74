"""The time of a job and its bill: those of the plan of its layout, or bounds where there is none.

The time is the one that `trnsim plan train` estimates for the same model, layout, instances and
tokens, with failures and checkpoints. A job without a model, a layout or a length has no plan; its
time limit, if it states one, is an upper bound. The bill is the time times the price of all
instances, for each copy of an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from trnsim.arch.catalogue import Catalogue, Instance, catalogue
from trnsim.errors import BadInput, EmulatorError
from trnsim.facts import Interval
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import MODEL_OPTIONS, Parallelism, options_of, parallelism_in
from trnsim.place.machine import machine
from trnsim.price import Quote, quote
from trnsim.system.train.estimate import TrainingEstimate, estimate, layout_request
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file

__all__ = ["Assumption", "JobPrice", "RolePrice", "TimeBasis", "parallelism_of", "price_job"]

_HOUR_S: Final = 3600.0
_KINDS: Final = ("capacity_block", "on_demand", "spot")
"""Kinds of purchase, of which the first with a price counts where none is stated."""
_HOSTING: Final = "sagemaker_hosting"


class TimeBasis(Enum):
    """The source of a job's time."""

    PLAN = "plan"
    LIMIT = "time limit, an upper bound"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Answers for what a spec does not state.

    Attributes:
        instance: instance type of roles that state none.
        model: name of a model, or path of a config.json; before the spec's own.
        tokens: tokens of the run.
        steps: optimizer steps of the run.
        purchase: kind of purchase; before the spec's own.
        rows: catalogue of prices; the built-in one if None.
    """

    instance: str = ""
    model: str = ""
    tokens: float | None = None
    steps: int | None = None
    purchase: str = ""
    rows: Catalogue | None = None


@dataclass(frozen=True)
class RolePrice:
    """The instances of a role and their price.

    Attributes:
        role: the role.
        instance: their type.
        instances: number of instances; None if the spec does not state the replicas.
        least_instances: number of instances that are always there.
        quote: price of one.
    """

    role: Role
    instance: Instance
    instances: int | None
    least_instances: int | None
    quote: Quote

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all instances of the role; None without a price or a number."""
        usd = self.quote.usd_per_hour
        return None if usd is None or self.instances is None else float(usd) * self.instances


@dataclass(frozen=True)
class JobPrice:
    """The time of a job and its bill.

    Attributes:
        job: the job.
        roles: instances of each role.
        basis: source of the time.
        plan: the plan of the training; None if there is none.
        steps: optimizer steps of the run; None without a plan.
        time_s: seconds of the job, or None.
        reasons: why there is no plan, or no bill.
    """

    job: Job
    roles: tuple[RolePrice, ...]
    basis: TimeBasis
    plan: TrainingEstimate | None
    steps: float | None
    time_s: Interval | None
    reasons: tuple[str, ...]

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all instances of all copies; None if that of one role is not known."""
        prices = [role.usd_per_hour for role in self.roles]
        known = [usd for usd in prices if usd is not None]
        return sum(known) * self.job.copies if prices and len(known) == len(prices) else None

    @property
    def usd(self) -> Interval | None:
        """The bill: ``time usd_per_hour``; None without one of them."""
        if self.time_s is None or self.usd_per_hour is None:
            return None
        return self.time_s.scaled(self.usd_per_hour / _HOUR_S)


def parallelism_of(job: Job) -> Parallelism:
    """The parallelism that the job's fields state, and then the options of its commands."""
    stated = job.parallelism
    for role in job.roles:
        stated = stated.over(parallelism_in(options_of(role.command)))
    return stated


def model_of(job: Job) -> str:
    """The model that the job names, or the one in an option of its commands; "" for none."""
    if job.model:
        return job.model
    for role in job.roles:
        options = options_of(role.command)
        for name in MODEL_OPTIONS:
            if options.get(name):
                return options[name]
    return ""


def price_job(job: Job, assumption: Assumption | None = None) -> JobPrice:
    """The time and the bill of a job.

    Raises:
        BadInput: an instance type, a kind of purchase or a model of `assumption` is not known.
    """
    known = assumption or Assumption()
    rows = known.rows or catalogue()
    reasons: list[str] = []
    roles = tuple(
        price
        for role in job.roles
        if (price := _role_price(role, job, known, rows, reasons)) is not None
    )
    plan, steps = None, None
    if job.kind is JobKind.TRAINING and len(roles) == len(job.roles):
        try:
            plan, steps = _plan(job, roles, known, rows)
        except _Unplanned as unplanned:
            reasons.append(str(unplanned))
    basis, time_s = TimeBasis.NONE, None
    if plan is not None:
        basis, time_s = TimeBasis.PLAN, plan.time_s
    elif job.time_limit_s is not None:
        limit_s = job.time_limit_s
        basis, time_s = TimeBasis.LIMIT, Interval(limit_s, limit_s, limit_s)
    return JobPrice(job, roles, basis, plan, steps, time_s, tuple(reasons))


class _Unplanned(Exception):
    """The reason that a job has no plan."""


def _role_price(
    role: Role, job: Job, known: Assumption, rows: Catalogue, reasons: list[str]
) -> RolePrice | None:
    """The instances of a role; None, and a reason, without an instance type that is known."""
    name = role.instance or known.instance
    if not name:
        reasons.append(f"role {role.name}: no instance type; --on INSTANCE states it")
        return None
    name = name.removeprefix("ml.")
    if name not in rows.instances:
        if known.instance and not role.instance:
            name = machine(known.instance, rows=rows).instance.name
        else:
            reasons.append(f"role {role.name}: {role.instance} is not in the catalogue")
            return None
    instance = rows.instances[name]
    if role.replicas is None:
        reasons.append(f"role {role.name}: the number of replicas is not stated")
    return RolePrice(
        role,
        instance,
        _instances(role, instance, role.replicas),
        _instances(role, instance, role.least_replicas),
        _quote(name, job, known, rows),
    )


def _instances(role: Role, instance: Instance, replicas: int | None) -> int | None:
    """Whole instances that hold the replicas of a role."""
    if replicas is None:
        return None
    part = _replica_part(role, instance)
    at_once = 1 if role.is_exclusive or part is None else max(int(1 / part), 1)
    return -(-replicas // at_once)


def _replica_part(role: Role, instance: Instance) -> float | None:
    """Part of the instance's accelerators that a replica takes; None for all of them."""
    count = role.devices or len(role.device_indexes) or role.gpus
    if count:
        return count / instance.count
    if role.cores:
        cores = catalogue().accelerator(instance.accelerator).cores
        return role.cores / (cores * instance.count)
    return None


def _quote(name: str, job: Job, known: Assumption, rows: Catalogue) -> Quote:
    """The price of an instance, of the first kind that has one."""
    stated = known.purchase or job.purchase
    kinds = (stated,) if stated else _KINDS
    if job.kind is JobKind.SERVING and not stated and job.roles[0].instance.startswith("ml."):
        kinds = (_HOSTING, *kinds)
    quotes = [quote(name, kind, region=job.region or None, rows=rows) for kind in kinds]
    return next((offer for offer in quotes if offer.usd_per_hour is not None), quotes[0])


def _plan(
    job: Job, roles: tuple[RolePrice, ...], known: Assumption, rows: Catalogue
) -> tuple[TrainingEstimate, float]:
    """The plan of a training job, and its steps.

    Raises:
        _Unplanned: the spec does not state enough, or no plan can be made of it.
    """
    instances, platform = _platform(roles)
    model = _model(job, known)
    stated = parallelism_of(job)
    where = machine(platform, instances, rows=rows)
    fields = {
        name: value
        for name, value in stated.stated.items()
        if name
        not in ("accumulation", "steps", "checkpoint_steps", "logical_cores", "global_batch")
    }
    try:
        request = layout_request(
            model, where, global_batch=_global_batch(stated, where.ranks), **fields
        )
        step_tokens = request.global_batch * request.sequence
        steps = known.steps or stated.steps
        if known.tokens is not None:
            tokens, run_steps = known.tokens, known.tokens / step_tokens
        elif steps:
            tokens, run_steps = float(steps * step_tokens), float(steps)
        else:
            raise _Unplanned(
                "the length of the run is not stated; --run-steps or --run-tokens states it"
            )
        plan = estimate(
            model,
            platform,
            tokens,
            request=request,
            instances=instances,
            kind=roles[0].quote.kind,
            rows=rows,
        )
    except EmulatorError as error:
        raise _Unplanned(f"no plan: {error.reason}") from error
    return plan, run_steps


def _platform(roles: tuple[RolePrice, ...]) -> tuple[int, str]:
    """Number and type of the instances that train: those of the roles with accelerators.

    Raises:
        _Unplanned: they have several types, a number is not stated, or a replica has only a part
            of an instance.
    """
    training = [role for role in roles if role.instances != 0]
    names = {role.instance.name for role in training}
    if len(names) != 1:
        types = ", ".join(sorted(names)) or "none"
        raise _Unplanned(f"a plan is of instances of one type; the roles have: {types}")
    if any(role.instances is None for role in training):
        raise _Unplanned("the number of replicas is not stated")
    for role in training:
        part = _replica_part(role.role, role.instance)
        if part is not None and part < 1 and not role.role.is_exclusive:
            raise _Unplanned(
                f"role {role.role.name} has {part:.3g} of a {role.instance.name}, and a plan is of "
                "whole instances"
            )
    return sum(role.instances or 0 for role in training), names.pop()


def _model(job: Job, known: Assumption) -> Architecture:
    """The model of a job.

    Raises:
        BadInput: the user's own name is not known.
        _Unplanned: the spec names no model that is known.
    """
    if known.model:
        return read(config_file(known.model))
    name = model_of(job)
    if not name:
        raise _Unplanned("no option names a model; --model NAME states it")
    try:
        return read(config_file(name))
    except (BadInput, EmulatorError) as error:
        raise _Unplanned(f"model {name!r} is not known; --model NAME states it") from error


def _global_batch(stated: Parallelism, ranks: int) -> int | None:
    """Sequences of a step: stated, or ``micro_batch accumulation data``."""
    if stated.global_batch is not None:
        return stated.global_batch
    if stated.micro_batch is None or stated.accumulation is None:
        return None
    others = (stated.tensor or 1) * (stated.pipeline or 1) * (stated.context or 1)
    data = stated.data or ranks // others
    return stated.micro_batch * stated.accumulation * data if data else None
