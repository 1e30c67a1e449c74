"""Kernels of NKI 0.2 and of later versions in one program or graph, which AWS does not support.

A kernel without a chosen version, whose code is valid under NKI 0.2 and later, may be mixed with
either.

Source: release notes of NKI 0.3, Breaking Changes, note.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from trnsim.behaviours.language import UNMIXED
from trnsim.context_values import context_value
from trnsim.errors import BadInput
from trnsim.nki.dialect import needs
from trnsim.program import CoreContext, Team, current_core

if TYPE_CHECKING:
    from trnsim.graph import Graph
    from trnsim.nki.kernel import Kernel

_program: ContextVar[list[Kernel] | None] = ContextVar("trnsim_nki_program", default=None)
"""The kernels of the program of an enclosing `one_program`; None outside of one."""
_running_kernels: WeakKeyDictionary[CoreContext, Kernel] = WeakKeyDictionary()
"""The kernel that runs on a core."""


def one_program() -> AbstractContextManager[None]:
    """Context whose kernels all belong to one program."""
    return context_value(_program, [])


def note_kernel(kernel: Kernel, team: Team) -> None:
    """Note that `kernel` starts on `team`, in the program of an enclosing `one_program`.

    Raises:
        BadInput: if the program has a kernel of an incompatible version.
    """
    for context in team.contexts:
        _running_kernels[context] = kernel
    program = _program.get()
    if program is not None and not any(kernel is program_kernel for program_kernel in program):
        refuse_mixed([*program, kernel])
        program.append(kernel)


def refuse_in_graph(kernel: Kernel, graph: Graph) -> None:
    """Refuse a call of `kernel` in a graph that has kernels of an incompatible version.

    Raises:
        BadInput: if there is one; names both kernels.
    """
    from trnsim.graph.ops.calls import CustomCall  # noqa: PLC0415  a kernel alone has no graph

    calls = [node.operation.call for node in graph.nodes if isinstance(node.operation, CustomCall)]
    kernels = [getattr(call, "kernel", kernel) for call in calls]
    refuse_mixed(dict.fromkeys([*kernels, kernel]))


def refuse_nested(kernel: Kernel) -> None:
    """Refuse a call of `kernel` within a kernel of an incompatible version.

    Raises:
        BadInput: if their versions are incompatible; names both kernels.
    """
    caller = _running_kernels.get(current_core())
    if caller is not None and caller is not kernel:
        refuse_mixed([caller, kernel])


def refuse_mixed(kernels: Iterable[Kernel]) -> None:
    """Refuse kernels of NKI 0.2 beside kernels that need a later version.

    Raises:
        BadInput: if there are both; names one kernel of each kind.
    """
    choices = [(kernel, kernel.version()) for kernel in kernels]
    pairs_of_0_2 = [pair for pair in choices if not pair[1].version.follows(UNMIXED)]
    later_pairs = (
        [pair for pair in choices if pair[1].version.follows(UNMIXED)] if pairs_of_0_2 else []
    )
    later_pairs = [
        pair for pair in later_pairs if pair[1].is_chosen or needs(pair[0].function, UNMIXED)
    ]
    if not later_pairs:
        return
    (older, old_choice), (newer, new_choice) = pairs_of_0_2[0], later_pairs[0]
    raise BadInput(
        f"the kernel {older.title} at {older.line} is of {old_choice.version} "
        f"({old_choice.reason}), and {newer.title} at {newer.line} of {new_choice.version} "
        f"({new_choice.reason}), in one program; {UNMIXED.rule}",
        fix=UNMIXED.instead,
        source=UNMIXED.source,
        line=newer.line,
    )
