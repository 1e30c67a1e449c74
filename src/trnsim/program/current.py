"""The current context: that of the core on which the running kernel issues its instructions.

It is a context variable, so that each thread has its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.program.context import CoreContext

_current: ContextVar[CoreContext | None] = ContextVar("trnsim_core", default=None)
running_core: Final = _current.get
"""The context in which the running kernel issues, or None: a function that takes no frame."""


def current_core() -> CoreContext:
    """The context in which the running kernel issues.

    Raises:
        BadInput: outside a kernel.
    """
    context = _current.get()
    if context is None:
        raise BadInput(
            "functions of nki.language and nki.isa work only while a kernel runs on a NeuronCore: "
            "this is outside a kernel",
            fix="call it in a function that is decorated with @nki.jit, and call that with arrays",
            source="nki.jit",
        )
    return context


def has_current_core() -> bool:
    """True if a kernel is running."""
    return _current.get() is not None


@contextmanager
def issuing_to(context: CoreContext) -> Generator[CoreContext]:
    """Make `context` the current one.

    Infinities and NaN are legal values on a NeuronCore, so numpy's warnings are off inside.
    """
    token = _current.set(context)
    try:
        with np.errstate(all="ignore"):
            yield context
    finally:
        _current.reset(token)
