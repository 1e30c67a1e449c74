"""A job as a script of sbatch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.correction import time_text
from trnsim.jobs.formats.sbatch_options import NOTES, resource_count
from trnsim.jobs.formats.sbatch_script import HEAD, HEADER, component_key, names_head
from trnsim.jobs.formats.shell_words import quote, quote_words
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import options_of, parallelism_in, started_ranks

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD: Final = re.compile(r"[^\s#\"'\\,;-][^\s#\"'\\,]*")
_COLUMNS: Final = 96
_UNITS: Final = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))
_CLUSTER_RESOURCES: Final = {
    "efa": "EFA interfaces",
    "hugepages_bytes": "bytes of huge pages",
    "shm_bytes": "bytes of /dev/shm",
    "capabilities": "as capabilities",
}
"""Resources of a role without an option of sbatch, and their words in a comment."""


def write(job: Job) -> str:
    """The script of a job.

    Raises:
        BadInput: the script cannot express the job.
    """
    _check(job)
    kept_values = {field.keys: field.value for field in job.kept_fields}
    lines = ["#!/bin/bash", *_options(job, kept_values)]
    lines += [f"# of the cluster: {text}" for text in _cluster_facts(job)]
    lines += _body(job, kept_values)
    lines += [value for keys, value in kept_values.items() if keys[0] == "ignored"]
    return "\n".join(lines) + "\n"


def _check(job: Job) -> None:
    """Refuse a job that an sbatch script cannot express."""
    if job.kind is not JobKind.TRAINING:
        reasons = {
            JobKind.SERVING: ("a server does not end, and a batch job does", "--as pod"),
            JobKind.CLUSTER: ("its nodes wait for jobs", "--as parallelcluster writes them"),
        }
        raise _refusal(f"kind is {job.kind.value}", *reasons[job.kind])
    if not job.roles:
        raise _refusal("no role", "a script asks for nodes", "give the job a role")
    command_fields = parallelism_in(options_of(job.roles[0].command)).stated_fields
    missing = [
        name
        for name, value in job.parallelism.stated_fields.items()
        if command_fields.get(name) != value
    ]
    if missing or job.config:
        names = ", ".join(missing) or "config"
        reason = "a script has its options alone"
        fix = "state it as the command's options"
        raise _refusal(f"{names} is stated beside the command", reason, fix)
    if len({role.environment for role in job.roles}) > 1:
        why = "all components share one script"
        raise _refusal("roles have different variables", why, "give all roles the same variables")
    for role in job.roles:
        _check_role(role, job)
    if job.time_limit_s is not None and (job.time_limit_s % 1 or job.time_limit_s <= 0):
        fix = f"set {max(1, math.ceil(job.time_limit_s))} s, or no limit"
        subject = f"time_limit_s is {job.time_limit_s}"
        raise _refusal(subject, "sbatch takes whole seconds from 1", fix)


def _check_role(role: Role, job: Job) -> None:
    for name, _ in role.environment:
        if not _NAME.fullmatch(name):
            why = "a shell's variable has letters, digits and _"
            raise _refusal(f"variable {name!r}", why, "rename the variable")
    if not job.name.isprintable():
        raise _refusal(f"name is {job.name!r}", "an option is one line of text", "rename the job")
    texts = {"instance": role.instance} | {name: getattr(job, name) for name in NOTES}
    for field, text in texts.items():
        if text and not _WORD.fullmatch(text):
            why = "a value without spaces and quotes"
            raise _refusal(f"{field} is {text!r}", why, f"write {field} as one word")
    if role.command[:1] and role.command[0].startswith("-"):
        subject = f"command begins with {role.command[0]!r}"
        raise _refusal(subject, "srun takes it for an option", "begin it with the program")
    tasks = _tasks(role) or 1
    if role.vcpus is not None and (role.vcpus < 1 or role.vcpus % tasks):
        why = f"sbatch counts CPUs of a task, a whole number for each of {tasks}"
        fix = f"state {max(1, round(role.vcpus / tasks)) * tasks}"
        raise _refusal(f"vcpus is {role.vcpus:g}", why, fix)
    if role.memory_bytes is not None and (role.memory_bytes % 1024 or not role.memory_bytes):
        why = "sbatch takes multiples of 1 KiB"
        raise _refusal(f"memory_bytes is {role.memory_bytes}", why, "round the memory to KiB")
    key = component_key(job.roles.index(role))
    is_counted = any(field.keys in ((key, "ntasks"), (key, "nodes")) for field in job.kept_fields)
    if role.replicas is None and not is_counted:
        fix = "state the number of its nodes"
        subject = f"role {role.name}: no number of replicas"
        raise _refusal(subject, "sbatch would take one node", fix)


def _tasks(role: Role) -> int | None:
    """Tasks on a node: ``processes / (ranks that a task's launcher starts)``; None if not stated.

    Raises:
        BadInput: the processes are no multiple of the ranks of a task.
    """
    if role.processes is None:
        return None
    ranks = started_ranks(role.command) or 1
    if role.processes % ranks or not role.processes:
        subject = f"processes is {role.processes}"
        reason = f"each task starts {ranks}, so their number is a multiple of it"
        raise _refusal(subject, reason, f"state {max(1, role.processes // ranks) * ranks}")
    return role.processes // ranks


def _refusal(subject: str, reason: str, fix: str) -> BadInput:
    return BadInput(f"sbatch cannot express the job: {subject}: {reason}", fix=fix)


def _options(job: Job, kept_values: dict[tuple[str | int, ...], Any]) -> Iterator[str]:
    for index, role in enumerate(job.roles):
        key = component_key(index)
        if index:
            yield f"{HEADER} hetjob"
        if job.name and not index:
            yield f"{HEADER} --job-name={_option_text(job.name)}"
        yield from (f"{HEADER} --{option}" for option in _role_options(role, key, kept_values))
        notes = [f"{name}={getattr(job, name)}" for name in NOTES if getattr(job, name)]
        if notes and not index:
            yield f"{HEADER} --comment={','.join(notes)}"
        if not index and job.time_limit_s is not None:
            yield f"{HEADER} --time={time_text(int(job.time_limit_s))}"
        if not index and job.copies != 1 and (key, "array") not in kept_values:
            yield f"{HEADER} --array=0-{job.copies - 1}"
        for keys, value in kept_values.items():
            if keys[0] == key and keys[1:2] != ("gres",):
                text = "" if value is True else f"={_option_text(str(value))}"
                yield f"{HEADER} --{keys[1]}{text}"


def _role_options(
    role: Role, key: str, kept_values: dict[tuple[str | int, ...], Any]
) -> Iterator[str]:
    if role.replicas is not None:
        least_nodes = "" if role.least_replicas is None else f"{role.least_replicas}-"
        yield f"nodes={least_nodes}{role.replicas}"
    tasks = _tasks(role)
    if tasks is not None:
        yield f"ntasks-per-node={tasks}"
    if role.vcpus is not None:
        yield f"cpus-per-task={int(role.vcpus) // (tasks or 1)}"
    resources = dict(_resources(role, key, kept_values))
    if resources:
        entries: list[str] = []
        for name, count in resources.items():
            type_ = str(kept_values.get((key, "gres", f"{name} type"), ""))
            entries += (f"{name}:{entry}" for entry in _resource_entries(type_, count))
        yield f"gres={','.join(entries)}"
    if role.memory_bytes is not None:
        yield f"mem={_memory_text(role.memory_bytes)}"
    if role.is_exclusive:
        yield "exclusive"
    if role.instance and kept_values.get((key, "partition")) != role.instance:
        yield f"constraint={role.instance}"


def _resource_entries(type_: str, count: str) -> list[str]:
    """``[type:]count`` of each type; a count that the types do not add up to stands alone."""
    if "," not in type_:
        return [f"{type_}:{count}" if type_ else count]
    entries = type_.split(",")
    return entries if resource_count(entries)[0] == count else [count]


def _resources(
    role: Role, key: str, kept_values: dict[tuple[str | int, ...], Any]
) -> Iterator[tuple[str, str]]:
    devices = role.devices if role.devices is not None else len(role.device_indexes) or None
    for name, count in (("neuron", devices), ("neuroncore", role.cores)):
        if count is not None:
            yield name, str(count)
    if role.gpus is not None and (key, "gpus-per-node") not in kept_values:
        yield "gpu", str(role.gpus)
    for keys, value in kept_values.items():
        if keys[:2] == (key, "gres") and keys[2:] and not str(keys[2]).endswith(" type"):
            yield str(keys[2]), str(value)


def _memory_text(size_bytes: int) -> str:
    return next(f"{size_bytes // unit}{name}" for name, unit in _UNITS if not size_bytes % unit)


def _option_text(text: str) -> str:
    return text if _WORD.fullmatch(text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _cluster_facts(job: Job) -> Iterator[str]:
    """Requests of the job that no option of sbatch states."""
    for role in job.roles:
        for field in fields(role):
            value = getattr(role, field.name)
            if field.name in _CLUSTER_RESOURCES and value:
                text = " ".join(value) if isinstance(value, tuple) else str(value)
                yield f"{' '.join(text.split())} {_CLUSTER_RESOURCES[field.name]} on each node"


def _body(job: Job, kept_values: dict[tuple[str | int, ...], Any]) -> Iterator[str]:
    """Lines of the script: kept statements at their numbers, the others between them."""
    statements = {
        keys[1]: value
        for keys, value in kept_values.items()
        if keys[0] == "script" and len(keys) > 1
    }
    own_lines = [
        *(f"export {name}={quote(value)}" for name, value in job.roles[0].environment),
        *_command(job, kept_values),
    ]
    words = [word for role in job.roles for word in role.command]
    has_head = job.roles[0].variable(HEAD[0]) is not None or any(
        HEAD[0] in str(statement) for statement in statements.values()
    )
    if names_head(words) and not has_head:
        yield f"export {HEAD[0]}={HEAD[1]}"
    slot = 0
    while statements or own_lines:
        if slot in statements:
            yield str(statements.pop(slot))
        elif own_lines:
            yield own_lines.pop(0)
        else:
            yield from (str(statement) for _, statement in sorted(statements.items()))
            return
        slot += 1


def _command(job: Job, kept_values: dict[tuple[str | int, ...], Any]) -> Iterator[str]:
    steps = [
        _step_words(role, index, kept_values)
        for index, role in enumerate(job.roles)
        if role.command or role.image or any(keys[:2] == ("srun", index) for keys in kept_values)
    ]
    if not steps:
        return
    is_step = kept_values.get(("srun",)) is not False
    words = ["srun"] if is_step else []
    for number, step in enumerate(steps):
        words += [":", *step] if number else step
    tail = kept_values.get(("tail",), "")
    if tail.startswith("\n"):  # the rest of a block
        yield _folded_command(words) + tail
    else:
        yield _folded_command([*words, *filter(None, [tail])])


def _folded_command(words: list[str]) -> str:
    """The words of a command, on lines of about `_COLUMNS`; options stay with their values."""
    lines, previous_word = [""], ""
    for word in words:
        is_value = previous_word.startswith("-") and not word.startswith("-")
        previous_word = word
        if lines[-1] and not is_value and len(lines[-1]) + len(word) > _COLUMNS:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def _step_words(role: Role, index: int, kept_values: dict[tuple[str | int, ...], Any]) -> list[str]:
    options = [
        quote(str(value))
        for keys, value in kept_values.items()
        if keys[:2] == ("srun", index) and keys[2:]
    ]
    if role.image:
        options.append(f"--container-image={quote(role.image)}")
    return [*options, *quote_words(role.command)]
