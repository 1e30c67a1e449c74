"""Processes of each replica, as a job's single number for all roles.

Source: github.com/kubeflow/training-operator v1.9.0 pkg/apis/kubeflow.org/v1/pytorch_types.go,
NprocPerNode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.errors import BadInput
from trnsim.jobs.job import Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import SpecReader

_WORDS: Final = ("auto", "cpu", "gpu")


def read_processes(reader: SpecReader, *keys: str, field: str) -> int | None:
    """Processes of a replica; None for a word such as "auto", which is kept, and for a template.

    Raises:
        BadInput: the value is neither a number nor such a word.
    """
    value = reader.value(*keys)
    if value is None or value in _WORDS or reader.is_templated(*keys, field=field):
        return None
    return reader.whole(*keys, field=field, minimum=1)


def stated_processes(roles: Sequence[Role], title: str) -> int | None:
    """Processes of each replica; None if no role states another number than its command starts.

    Args:
        roles: the roles that the number is for.
        title: the format in words, such as "a PyTorchJob".

    Raises:
        BadInput: the roles' numbers differ.
    """
    if all(job_role.processes in (None, started_ranks(job_role.command)) for job_role in roles):
        return None
    counts = {job_role.processes for job_role in roles}
    if len(counts) > 1:
        raise BadInput(
            f"roles start {' and '.join(sorted(map(str, counts)))} processes; {title} has "
            "one number",
            fix="start as many in each, or write a job for each role",
        )
    return counts.pop()
