"""Commands of jobs on several nodes, whose rendezvous is at the head: the node in MASTER_ADDR.

Services start a command without a shell, so `$MASTER_ADDR` in its words is not replaced. A writer
wraps such a command in a shell that sets the variable to the first node, in the spelling of the
service, and a reader unwraps it.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from trnsim.jobs.job import Role

_HEAD: Final = re.compile(r"\$\{?MASTER_ADDR\b")
_PLAIN: Final = re.compile(r"[\w.:/=${}@,+-]*", re.ASCII)
"""Words that a shell does not split, and in which it replaces only variables."""
_SHELL: Final = ("/bin/sh", "-c")


def with_head(role: Role, address: str) -> tuple[str, ...]:
    """The command of a role, run by a shell if it has `$MASTER_ADDR`.

    Args:
        role: the role.
        address: the head's address as a shell's word.
    """
    is_plain = all(_PLAIN.fullmatch(word) for word in role.command if _HEAD.search(word))
    is_named = any(_HEAD.search(word) for word in role.command)
    if not is_named or not is_plain or role.entry_words or role.variable("MASTER_ADDR") is not None:
        return role.command
    words = (word if _HEAD.search(word) else shlex.quote(word) for word in role.command)
    return (*_SHELL, _script(address), "sh", *words)


def without_head(command: tuple[str, ...], address: str) -> tuple[str, ...]:
    """The command without the shell that `with_head` adds; any other command unchanged."""
    shell = (*_SHELL, _script(address), "sh")
    if command[: len(shell)] != shell:
        return command
    try:
        words = [shlex.split(word) for word in command[len(shell) :]]
    except ValueError:
        return command
    return tuple(part for word in words for part in word)


def _script(address: str) -> str:
    """A script that sets the variable, and runs its arguments as words of a shell."""
    return f'export MASTER_ADDR={address}; eval "exec $*"'
