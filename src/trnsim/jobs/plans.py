"""The plan of a job: the training or the server that `trnsim plan` estimates for its options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from trnsim.errors import EmulatorError
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job
from trnsim.jobs.parallelism import (
    MODEL_OPTIONS,
    OPTIONS,
    Parallelism,
    options_of,
    parallelism_in,
    whole_number,
)
from trnsim.jobs.role_price import RolePrice, replica_part
from trnsim.jobs.spec import is_template
from trnsim.place.machine import Machine, machine
from trnsim.system.serve.demand import open_rate_demand, usual_lengths
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.serve.plan import plan as plan_of_server
from trnsim.system.train.candidates import LayoutRequest
from trnsim.system.train.estimate import TrainingEstimate, estimate, layout_request
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import from_config, read
from trnsim.workload.model_names import config_file

_SERVE: Final = "serve"
"""The word of `vllm serve MODEL` before the model."""
_SERVER_MODULES: Final = "vllm.entrypoints."
"""Prefix of modules that are vLLM's servers, such as vllm.entrypoints.openai.api_server."""
_SERVER_OPTIONS: Final = {
    "max-model-len": "max_model_len",
    "expert-parallel-size": "expert",
    "max-num-batched-tokens": "max_num_batched_tokens",
    "block-size": "block_tokens",
    "quantization": "quantization",
    "kv-cache-dtype": "kv_dtype",
}
"""Options that a server's plan reads beside `_SERVER_COUNTS`. Source: vLLM, EngineArgs."""
_SERVER_COUNTS: Final = ("tensor", "pipeline", "data", "server_sequences")
"""Fields of a parallelism that a server's plan reads."""
_TEXTS: Final = ("quantization", "kv_dtype")
_LENGTHS: Final = ("max_model_len", "max_num_batched_tokens")
_LONGEST: Final = ("auto", "-1")
"""Values of --max-model-len for the longest sequence that fits. Source: vLLM, ModelConfig."""
_DECIMAL: Final = re.compile(r"\d{1,15}\.\d{1,15}", re.ASCII)
_MULTIPLES: Final = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
}
"""Suffixes of lengths. Source: vLLM, arg_utils.human_readable_int."""
_FIELDS_OUTSIDE_LAYOUT: Final = (
    *("accumulation", "steps", "checkpoint_steps", "logical_cores", "global_batch"),
    "server_sequences",
)
"""Fields of a parallelism that no layout of ranks has."""


class NoPlan(Exception):
    """The reason that a job has no plan."""


def parallelism_of(job: Job) -> Parallelism:
    """The parallelism that the job's fields state, and then the options of its commands."""
    parallelism = job.parallelism
    for role in job.roles:
        parallelism = parallelism.with_defaults(parallelism_in(options_of(role.command)))
    return parallelism


def model_name(job: Job) -> str:
    """The name of the model that the job states, or else a command of its roles; "" for none."""
    if job.model:
        return job.model
    for role in job.roles:
        options = options_of(role.command)
        names = [options[name] for name in MODEL_OPTIONS if options.get(name)]
        if _SERVE in role.command[:-1]:
            next_word = role.command[role.command.index(_SERVE) + 1]
            names += [] if next_word.startswith("-") else [next_word]
        if names:
            return names[0]
    return ""


def starts_server(job: Job) -> bool:
    """True if a command of the job's roles starts vLLM's server, whatever its spec is for."""
    return any(_is_server(role.command) for role in job.roles)


def _is_server(words: Sequence[str]) -> bool:
    return any(
        (second == _SERVE and first.rpartition("/")[2] == "vllm")
        or (first == "-m" and second.startswith(_SERVER_MODULES))
        for first, second in pairwise(words)
    )


def _server_options(job: Job) -> dict[str, Any]:
    """The fields of `ServerOptions` that commands state, without the layout of ranks.

    Raises:
        NoPlan: an option that a plan reads has a value that it cannot have.
    """
    server_fields: dict[str, Any] = {}
    for role in job.roles:
        for name, text in options_of(role.command).items():
            field = _SERVER_OPTIONS.get(name, "")
            if is_template(text) or not (field or OPTIONS.get(name) in _SERVER_COUNTS):
                continue
            value = _server_value(name, field, text)
            if field and value is not None:
                server_fields.setdefault(field, value)
    return server_fields


def _server_value(name: str, field: str, text: str) -> str | int | None:
    """The value of a server's option; None for the longest sequence that fits.

    Raises:
        NoPlan: the option cannot have this value.
    """
    if field in _TEXTS and text:
        return text
    if field == "max_model_len" and text in _LONGEST:
        return None
    value = _tokens_in(text) if field in _LENGTHS else whole_number(text)
    if field in _TEXTS or not value:
        fault = f"is {text!r}" if text else "has no value"
        legal = "a name" if field in _TEXTS else "whole numbers from 1 on"
        legal += ", 8k (8,000) or 8K (8,192)" if field in _LENGTHS else ""
        raise NoPlan(f"no plan: --{name} {fault}; legal: {legal}; correct it in the command")
    return value


def _tokens_in(text: str) -> int | None:
    """The number of tokens that a text spells as vLLM reads it; None for any other text."""
    size = _MULTIPLES.get(text[-1:], 1)
    number = text[:-1] if size > 1 else text
    if size > 1 and text[-1].islower() and _DECIMAL.fullmatch(number):
        return int(Fraction(number) * size)
    count = whole_number(number)
    return None if count is None else count * size


def architecture_of(job: Job) -> Architecture:
    """The architecture that a job names, or else an architecture of the sizes that it states.

    Raises:
        EmulatorError: the name is not known, or a size is missing.
    """
    name = model_name(job)
    return read(config_file(name)) if name else from_config(dict(job.config), "the spec's model")


def training_plan(
    job: Job, roles: Sequence[RolePrice], assumption: SpecAssumption
) -> TrainingEstimate:
    """The plan of a training job, for the user's tokens or steps, or else the steps of the job.

    Raises:
        BadInput: the user's own name of a model is not known.
        NoPlan: the spec does not state enough, or no plan can be made of it.
    """
    instances, platform = _platform(roles)
    model = _model(job, assumption)
    parallelism = parallelism_of(job)
    try:
        plan_machine = machine(platform, instances, rows=assumption.rows)
    except EmulatorError as error:
        raise NoPlan(f"no plan: {error.reason}") from error
    _check_ranks(roles, plan_machine)
    stated_fields = parallelism.stated_fields
    fields = {
        name: value for name, value in stated_fields.items() if name not in _FIELDS_OUTSIDE_LAYOUT
    }
    try:
        request = layout_request(
            model,
            plan_machine,
            global_batch=_global_batch(parallelism, plan_machine.ranks),
            **fields,
        )
        return estimate(
            model,
            platform,
            _tokens(request, parallelism.steps, assumption),
            request=request,
            instances=instances,
            kind=roles[0].quote.kind,
            rows=assumption.rows,
        )
    except EmulatorError as error:
        raise NoPlan(f"no plan: {error.reason}") from error


def serving_plan(job: Job, roles: Sequence[RolePrice], assumption: SpecAssumption) -> ServingPlan:
    """The plan of a server for the highest load that it can serve: a spec states no rate.

    Raises:
        BadInput: the user's own name of a model is not known.
        NoPlan: the spec does not state enough, or no plan can be made of it.
    """
    instances, platform = _platform(roles)
    model = _model(job, assumption)
    parallelism = parallelism_of(job)
    server_fields: dict[str, Any] = {
        "max_model_len": job.parallelism.sequence,
        **_server_options(job),
    }
    options = ServerOptions(
        tensor=parallelism.tensor,
        pipeline=parallelism.pipeline,
        replicas=parallelism.data,
        instances=instances,
        max_num_seqs=parallelism.server_sequences,
        **server_fields,
    )
    limits = [limit for limit in (model.length_limit, options.max_model_len) if limit]
    inputs, outputs = usual_lengths(min(limits, default=0))
    demand = open_rate_demand(int(inputs.first), int(outputs.first))
    try:
        return plan_of_server(
            model,
            machine(platform, lnc=roles[0].role.lnc, rows=assumption.rows),
            options,
            demand,
            kind=roles[0].quote.kind,
            rows=assumption.rows,
        )
    except EmulatorError as error:
        raise NoPlan(f"no plan: {error.reason}") from error


def _check_ranks(roles: Sequence[RolePrice], plan_machine: Machine) -> None:
    """Refuse a job whose ranks differ from the plan's: one on each logical core of an instance.

    Raises:
        NoPlan: the spec states another LNC, or another number of ranks.
    """
    instance = plan_machine.instance.name
    for role in roles:
        lnc, processes = role.role.lnc, role.role.processes
        if plan_machine.lnc and lnc is not None and lnc != plan_machine.lnc:
            raise NoPlan(
                f"role {role.role.name} sets LNC {lnc}, and a plan of {instance} has "
                f"LNC {plan_machine.lnc}"
            )
        if processes is not None and processes != plan_machine.ranks_per_instance:
            raise NoPlan(
                f"role {role.role.name} starts {processes} ranks, and a plan of {instance} has "
                f"{plan_machine.ranks_per_instance}, one for each {plan_machine.rank_name}"
            )


def _tokens(request: LayoutRequest, steps: int | None, assumption: SpecAssumption) -> float:
    """Tokens of the run: the user's, or the tokens of the steps that the user or the job states.

    Raises:
        NoPlan: neither tokens nor steps are stated.
    """
    if assumption.tokens is not None:
        return assumption.tokens
    steps = assumption.steps or steps
    if not steps:
        raise NoPlan("the length of the run is not stated; --run-steps or --run-tokens states it")
    return float(steps * request.global_batch * request.sequence)


def _platform(roles: Sequence[RolePrice]) -> tuple[int, str]:
    """Number and type of a plan's instances: the instances of the roles with accelerators.

    Raises:
        NoPlan: the roles have several types, a number is not stated, or a replica has only a part
            of an instance.
    """
    planned_roles = [role for role in roles if role.instances != 0]
    names = {role.instance.name for role in planned_roles}
    if len(names) != 1:
        types = ", ".join(sorted(names)) or "none"
        raise NoPlan(f"a plan is of instances of one type; the roles have: {types}")
    if any(role.instances is None for role in planned_roles):
        raise NoPlan("the number of replicas is not stated")
    for role in planned_roles:
        part = replica_part(role.role, role.instance)
        if part is not None and part < 1 and not role.role.is_exclusive:
            raise NoPlan(
                f"role {role.role.name} has {float(part):.3g} of an instance "
                f"({role.instance.name}), and a plan is of whole instances"
            )
    return sum(role.instances or 0 for role in planned_roles), names.pop()


def _model(job: Job, assumption: SpecAssumption) -> Architecture:
    """The model of a job.

    Raises:
        BadInput: the user's own name is not known.
        NoPlan: the spec names no model that is known.
    """
    if assumption.model:
        return read(config_file(assumption.model))
    name = model_name(job)
    if not name and not job.config:
        raise NoPlan("no option names a model; --model NAME states it")
    try:
        return architecture_of(job)
    except EmulatorError as error:
        if name:
            raise NoPlan(f"model {name!r} is not known; --model NAME states it") from error
        raise NoPlan(f"the model: {error.reason}; --model NAME states it") from error


def _global_batch(parallelism: Parallelism, ranks: int) -> int | None:
    """Sequences of a step: stated, or ``micro_batch accumulation data``."""
    if parallelism.global_batch is not None:
        return parallelism.global_batch
    if parallelism.micro_batch is None or parallelism.accumulation is None:
        return None
    model_ranks = (
        (parallelism.tensor or 1) * (parallelism.pipeline or 1) * (parallelism.context or 1)
    )
    data = parallelism.data or ranks // model_ranks
    return parallelism.micro_batch * parallelism.accumulation * data if data else None
