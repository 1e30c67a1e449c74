"""Loops `while register:` of Python, which are loops on the device before NKI 0.7.

A turn begins where Python evaluates the condition. Turns are compared with each other, as in other
device loops. A loop that its body leaves by break, return or an error evaluates no last condition:
it ends when its statement no longer runs.

Source: nki-dynamic-loops.rst; nki-language-guide.rst, Dynamic Control Flow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trnsim.nki.dialect import text_of
from trnsim.nki.notices import is_simulator
from trnsim.program import CoreContext


class _Loop(NamedTuple):
    """A loop that runs.

    Attributes:
        frame_id: the id of the function's frame.
        code: the code of the function.
        first_line: the line of the condition.
        last_line: the last line of the body.
        begin: the function to call at the start of each turn.
        context: the nesting of the loop, to leave at its end.
    """

    frame_id: int
    code: CodeType
    first_line: int
    last_line: int
    begin: Callable[[], None]
    context: AbstractContextManager[Callable[[], None]]

    def runs_in(self, frame: FrameType | None) -> bool:
        """True if its statement runs in `frame` or in one that called it."""
        while frame is not None:
            if id(frame) == self.frame_id and frame.f_code is self.code:
                return self.first_line <= frame.f_lineno <= self.last_line
            frame = frame.f_back
        return False


_running_loops: WeakKeyDictionary[CoreContext, list[_Loop]] = WeakKeyDictionary()


def leave_ended_loops(core: CoreContext) -> None:
    """End the loops whose statements no longer run."""
    loops = _running_loops.get(core)
    while loops and not loops[-1].runs_in(sys._getframe(1)):  # noqa: SLF001  CPython's name
        loops.pop().context.__exit__(None, None, None)


def advance_loop(
    core: CoreContext, frame: FrameType, is_true: bool, end_turn: Callable[[], None]
) -> bool:
    """Begin or end a turn of the loop whose condition `frame` evaluates.

    Returns False, without an effect, if the condition does not belong to a `while` on the device.

    Args:
        core: the running core.
        frame: the frame that evaluates a register as a condition.
        is_true: the value of the condition.
        end_turn: the check of a turn that ends.
    """
    if is_simulator():
        return False
    last_line = _while_statements(text_of(frame.f_code.co_filename)).get(frame.f_lineno)
    if last_line is None:
        return False
    leave_ended_loops(core)
    loops = _running_loops.setdefault(core, [])
    place = id(frame), frame.f_code, frame.f_lineno
    if loops and loops[-1][:3] == place:
        end_turn()
    elif is_true:
        context = core.nesting.loop()
        loops.append(_Loop(*place, last_line, context.__enter__(), context))
    else:
        return True
    if is_true:
        loops[-1].begin()
    else:
        loops.pop().context.__exit__(None, None, None)
    return True


@lru_cache(maxsize=256)
def _while_statements(text: str) -> dict[int, int]:
    """First line -> last line of each `while`, with its body on further lines.

    Its condition is a name, an attribute or an element.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    return {
        node.lineno: node.body[-1].end_lineno or node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.While)
        and isinstance(node.test, ast.Name | ast.Attribute | ast.Subscript)
        and node.test.end_lineno == node.lineno < node.body[0].lineno
    }
