"""`torch_xla.debug.profiler`: scopes, which PyTorch's profiler shows.

Source: torch_xla 2.9.0, debug/profiler.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Self

from trnsim.torch import pytorch
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.steps import step_closures

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


class Trace:
    """A scope with a name."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        del kwargs
        self.name = name
        self._scope: Any = pytorch.profiler_scope(name)

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._scope.__exit__(*error)


class StepTrace(Trace):
    """A scope at whose end a step ends, unless an exception leaves it."""

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            step_closures.end_step()
        super().__exit__(*error)


def trace_me(scope: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that runs a function in a scope."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with Trace(scope):
                return function(*args, **kwargs)

        return call

    return decorate


__getattr__ = absence_getter("torch_xla.debug.profiler", __name__)
