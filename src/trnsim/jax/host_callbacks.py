"""JAX's callbacks in programs: functions of Python that the host calls, known by number.

JAX lowers them as for a CPU (`debug.print`, `debug.callback`, `pure_callback`, `io_callback`).
A NeuronCore has none, so they are computed under the policy `host` and refused under `chip`.

Source: frameworks/jax/setup/jax-neuronx-known-issues.rst, host callbacks are not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

from trnsim.errors import NotModelled

TARGETS: Final = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
"""The names of the custom calls; the second is of a call that each device makes for itself."""


class Functions:
    """The functions of this process by number, in place of the list that JAX keeps for a program.

    The first number is random, so that no other process has it, since a program may be stored. A
    function lives as long as the programs that call it.
    """

    def __init__(self) -> None:
        self._next_number = uuid4().int >> 66
        self._functions: WeakValueDictionary[int, Callable[..., Any]] = WeakValueDictionary()

    def __len__(self) -> int:
        return self._next_number

    def append(self, function: Callable[..., Any]) -> None:
        """Add a function under the next number."""
        self._functions[self._next_number] = function
        self._next_number += 1

    def of(self, number: int) -> Callable[..., Any]:
        """The function of that number.

        Raises:
            NotModelled: another process has it.
        """
        try:
            return self._functions[number]
        except KeyError:
            raise NotModelled(
                "a program that calls back a function of Python in another process",
                fix="compile and run it in the process that defines the function",
            ) from None


functions: Final = Functions()
