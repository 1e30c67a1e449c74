"""Context variables with a value for the length of a block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def context_value(variable: ContextVar[_T], value: _T) -> Generator[None]:
    """Context in which `variable` has `value`; at its end it has its earlier value again."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
