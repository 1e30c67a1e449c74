"""The plan of a job: the training or the server that `trnsim plan` estimates for its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.errors import EmulatorError
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job
from trnsim.jobs.parallelism import MODEL_OPTIONS, Parallelism, options_of, parallelism_in
from trnsim.jobs.role_price import RolePrice, replica_part
from trnsim.place.machine import Machine, machine
from trnsim.system.serve.demand import USUAL_INPUT, USUAL_OUTPUT, free_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.serve.plan import plan as plan_of_server
from trnsim.system.train.candidates import LayoutRequest
from trnsim.system.train.estimate import TrainingEstimate, estimate, layout_request
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import from_config, read
from trnsim.workload.model_names import config_file

__all__ = [
    "Unplanned",
    "architecture_of",
    "model_of",
    "parallelism_of",
    "serving_plan",
    "training_plan",
]

_SERVE: Final = "serve"
"""The word of `vllm serve MODEL` before the model."""
_NOT_OF_LAYOUT: Final = (
    *("accumulation", "steps", "checkpoint_steps", "logical_cores", "global_batch"),
    "server_sequences",
)


class Unplanned(Exception):
    """The reason that a job has no plan."""


def parallelism_of(job: Job) -> Parallelism:
    """The parallelism that the job's fields state, and then the options of its commands."""
    stated = job.parallelism
    for role in job.roles:
        stated = stated.with_defaults(parallelism_in(options_of(role.command)))
    return stated


def model_of(job: Job) -> str:
    """The model that the job names, or the one in a command of its roles; "" for none."""
    if job.model:
        return job.model
    for role in job.roles:
        options = options_of(role.command)
        named = [options[name] for name in MODEL_OPTIONS if options.get(name)]
        if _SERVE in role.command[:-1]:
            named.append(role.command[role.command.index(_SERVE) + 1])
        if named:
            return named[0]
    return ""


def architecture_of(job: Job) -> Architecture:
    """The architecture that a job names, else the one of the sizes that it states.

    Raises:
        EmulatorError: the name is not known, or a size is missing.
    """
    name = model_of(job)
    return read(config_file(name)) if name else from_config(dict(job.config), "the spec's model")


def training_plan(job: Job, roles: Sequence[RolePrice], known: SpecAssumption) -> TrainingEstimate:
    """The plan of a training job, of its own steps or those that the user states.

    Raises:
        BadInput: the user's own name of a model is not known.
        Unplanned: the spec does not state enough, or no plan can be made of it.
    """
    instances, platform = _platform(roles)
    model = _model(job, known)
    stated = parallelism_of(job)
    where = machine(platform, instances, rows=known.rows)
    _check_ranks(roles, where)
    fields = {name: value for name, value in stated.stated.items() if name not in _NOT_OF_LAYOUT}
    try:
        request = layout_request(
            model, where, global_batch=_global_batch(stated, where.ranks), **fields
        )
        return estimate(
            model,
            platform,
            _tokens(request, stated, known),
            request=request,
            instances=instances,
            kind=roles[0].quote.kind,
            rows=known.rows,
        )
    except EmulatorError as error:
        raise Unplanned(f"no plan: {error.reason}") from error


def serving_plan(job: Job, roles: Sequence[RolePrice], known: SpecAssumption) -> ServingPlan:
    """The plan of a server without a rate: the most load that it keeps.

    Raises:
        BadInput: the user's own name of a model is not known.
        Unplanned: the spec does not state enough, or no plan can be made of it.
    """
    instances, platform = _platform(roles)
    model = _model(job, known)
    stated = parallelism_of(job)
    options = ServerOptions(
        tensor=stated.tensor,
        pipeline=stated.pipeline,
        replicas=stated.data,
        instances=instances,
        max_num_seqs=stated.server_sequences,
        max_model_len=stated.sequence,
    )
    try:
        return plan_of_server(
            model,
            machine(platform, lnc=roles[0].role.lnc, rows=known.rows),
            options,
            free_demand(USUAL_INPUT, USUAL_OUTPUT),
            kind=roles[0].quote.kind,
            rows=known.rows,
        )
    except EmulatorError as error:
        raise Unplanned(f"no plan: {error.reason}") from error


def _check_ranks(roles: Sequence[RolePrice], where: Machine) -> None:
    """Refuse a job whose ranks are not those of the plan: one on each logical core of an instance.

    Raises:
        Unplanned: the spec states another LNC, or another number of ranks.
    """
    for role in roles:
        lnc, processes = role.role.lnc, role.role.processes
        if where.lnc and lnc is not None and lnc != where.lnc:
            raise Unplanned(
                f"role {role.role.name} sets LNC {lnc}, and a plan of {where.instance.name} has "
                f"LNC {where.lnc}"
            )
        if processes is not None and processes != where.ranks_per_instance:
            raise Unplanned(
                f"role {role.role.name} starts {processes} ranks, and a plan of "
                f"{where.instance.name} has {where.ranks_per_instance}, one each {where.rank_name}"
            )


def _tokens(request: LayoutRequest, stated: Parallelism, known: SpecAssumption) -> float:
    """Tokens of the run: the user's, or those of its steps.

    Raises:
        Unplanned: neither is stated.
    """
    if known.tokens is not None:
        return known.tokens
    steps = known.steps or stated.steps
    if not steps:
        raise Unplanned(
            "the length of the run is not stated; --run-steps or --run-tokens states it"
        )
    return float(steps * request.global_batch * request.sequence)


def _platform(roles: Sequence[RolePrice]) -> tuple[int, str]:
    """Number and type of the instances that train: those of the roles with accelerators.

    Raises:
        Unplanned: they have several types, a number is not stated, or a replica has only a part
            of an instance.
    """
    training = [role for role in roles if role.instances != 0]
    names = {role.instance.name for role in training}
    if len(names) != 1:
        types = ", ".join(sorted(names)) or "none"
        raise Unplanned(f"a plan is of instances of one type; the roles have: {types}")
    if any(role.instances is None for role in training):
        raise Unplanned("the number of replicas is not stated")
    for role in training:
        part = replica_part(role.role, role.instance)
        if part is not None and part < 1 and not role.role.is_exclusive:
            raise Unplanned(
                f"role {role.role.name} has {part:.3g} of a {role.instance.name}, and a plan is of "
                "whole instances"
            )
    return sum(role.instances or 0 for role in training), names.pop()


def _model(job: Job, known: SpecAssumption) -> Architecture:
    """The model of a job.

    Raises:
        BadInput: the user's own name is not known.
        Unplanned: the spec names no model that is known.
    """
    if known.model:
        return read(config_file(known.model))
    name = model_of(job)
    if not name and not job.config:
        raise Unplanned("no option names a model; --model NAME states it")
    try:
        return architecture_of(job)
    except EmulatorError as error:
        if name:
            raise Unplanned(f"model {name!r} is not known; --model NAME states it") from error
        raise Unplanned(f"the model: {error.reason}; --model NAME states it") from error


def _global_batch(stated: Parallelism, ranks: int) -> int | None:
    """Sequences of a step: stated, or ``micro_batch accumulation data``."""
    if stated.global_batch is not None:
        return stated.global_batch
    if stated.micro_batch is None or stated.accumulation is None:
        return None
    others = (stated.tensor or 1) * (stated.pipeline or 1) * (stated.context or 1)
    data = stated.data or ranks // others
    return stated.micro_batch * stated.accumulation * data if data else None
