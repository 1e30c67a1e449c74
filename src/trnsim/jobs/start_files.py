"""Files that start a layout: a script of torchrun for each instance, or a spec of any format."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from trnsim.errors import BadInput
from trnsim.jobs.formats import FORMATS, write_spec
from trnsim.jobs.job import Role
from trnsim.jobs.planned import HEAD_PORT, planned_job
from trnsim.place.machine import Machine
from trnsim.system.train.layout import Layout

_TORCHRUN: Final = "torchrun"
_NOT_STARTED: Final = (
    *("plan", "parallelcluster", "nemo", "nxdt", "sagemaker-endpoint", "leaderworkerset"),
    *("batch-eks", "nemo-launcher", "script"),
)
"""Formats that start no ranks: of plans, clusters, configurations, servers, and lone pods."""
KINDS: Final = (_TORCHRUN, *(name for name in FORMATS if name not in _NOT_STARTED))
"""Kinds of files that start a run."""
_HEAD: Final = "$MASTER_ADDR"
_ALIASES: Final = {"k8s": "job"}


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of file.

    Raises:
        BadInput: the kind is unknown; the error has the legal kinds.
    """
    if _ALIASES.get(kind, kind) not in KINDS:
        raise BadInput(
            f"--emit is {kind!r}; legal: {', '.join(KINDS)}", fix="for example --emit torchrun"
        )


def start_file(
    kind: str, machine: Machine, layout: Layout, words: Sequence[str] = (), *, model: str = ""
) -> str:
    """The file of a kind that starts the layout.

    Raises:
        BadInput: the kind is unknown, or cannot express the job.
    """
    check_kind(kind)
    job = planned_job(machine, layout, model=model, words=words)
    if kind != _TORCHRUN:
        return write_spec(job, _ALIASES.get(kind, kind))
    title = f"# {layout} on {machine.count} x {machine.instance.name}"
    return _torchrun(title, job.roles[0])


def _torchrun(title: str, role: Role) -> str:
    """A shell script that each instance runs; with several, MASTER_ADDR is the first's address."""
    exports = [f"export {name}={value}" for name, value in role.environment]
    if (role.replicas or 1) > 1:
        title = f"{title}; MASTER_ADDR: address of the first"
        exports.insert(
            0, f": ${{MASTER_ADDR:?address of the first instance, for port {HEAD_PORT}}}"
        )
    return "\n".join(["#!/bin/sh", title, *exports, _folded_command(role.command), ""])


def _folded_command(words: Sequence[str]) -> str:
    """The command in lines, each with an option and its value."""
    lines: list[str] = []
    for word in words:
        quoted_word = f'"{word}"' if _HEAD in word else shlex.quote(word)
        if word.startswith("--") or not lines or word.endswith(".py"):
            lines.append(quoted_word)
        else:
            lines[-1] = f"{lines[-1]} {quoted_word}"
    return " \\\n    ".join(lines)
