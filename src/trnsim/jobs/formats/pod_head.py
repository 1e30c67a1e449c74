"""The address of a job's first pod, for rendezvous: MASTER_ADDR in commands of containers.

No shell reads a container's command: Kubernetes itself replaces ``$(NAME)`` in a word by a
variable of the container. Source: kubernetes.io docs, Define a Command and Arguments for a
Container.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trnsim.jobs.job import Job, Role

_NAME: Final = "MASTER_ADDR"
_SHELL_FORM: Final = f"${_NAME}"
_POD_FORM: Final = f"$({_NAME})"


def has_head(job: Job) -> bool:
    """True if a command of the job has $MASTER_ADDR, and no role sets that variable itself."""
    is_named = any(_SHELL_FORM in word for role in job.roles for word in role.command)
    return is_named and all(role.variable(_NAME) is None for role in job.roles)


def with_head(job: Job, address: str) -> Job:
    """The job with $(MASTER_ADDR) for $MASTER_ADDR, and the variable in each role's environment.

    Args:
        job: the job.
        address: address of the first pod; "" where an operator sets the variable.
    """
    if not has_head(job):
        return job
    variables = ((_NAME, address),) if address else ()
    return replace(
        job,
        roles=tuple(
            replace(
                _with_address(role, _SHELL_FORM, _POD_FORM),
                environment=(*variables, *role.environment),
            )
            for role in job.roles
        ),
    )


def without_head(job: Job, address: str) -> Job:
    """The job from which `with_head` made `job`; any other job unchanged."""
    addresses = {role.variable(_NAME) for role in job.roles}
    is_named = any(_POD_FORM in word for role in job.roles for word in role.command)
    if not is_named or addresses != {address or None}:
        return job
    return replace(
        job,
        roles=tuple(
            replace(
                _with_address(role, _POD_FORM, _SHELL_FORM),
                environment=tuple(pair for pair in role.environment if pair[0] != _NAME),
            )
            for role in job.roles
        ),
    )


def _with_address(role: Role, old_address: str, new_address: str) -> Role:
    return replace(
        role, command=tuple(word.replace(old_address, new_address) for word in role.command)
    )
