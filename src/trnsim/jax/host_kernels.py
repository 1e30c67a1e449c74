"""NKI kernels and callbacks in a program of XLA's CPU client, which calls Python for them.

The custom call of a kernel becomes a call of a function of Python, which XLA's client makes where
the value is read, also in loops and branches. No callback raises: a device that ended early would
leave the others waiting at their next exchange, and XLA would end the process. `HostKernels.run`
waits for all devices, then raises a kernel's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trnsim.device.device_core import target
from trnsim.device.kernel_call import KernelCall
from trnsim.device.program_line import is_program
from trnsim.errors import EmulatorError, NotModelled
from trnsim.jax import private
from trnsim.jax.host_callbacks import TARGETS as CALLBACK_TARGETS
from trnsim.jax.host_callbacks import functions
from trnsim.jax.host_client import HostArray, error_of
from trnsim.jax.kernel_calls import TARGET as KERNEL_TARGET
from trnsim.jax.kernel_calls import call_of

if TYPE_CHECKING:
    Arrays = tuple[npt.NDArray[Any], ...]


class HostKernels:
    """The kernels of a program.

    Attributes:
        has_kernels: True if the program may have kernels or callbacks.
    """

    def __init__(self, code: bytes) -> None:
        self.has_kernels = any(name.encode() in code for name in (KERNEL_TARGET, *CALLBACK_TARGETS))
        self._functions: dict[int, Callable[..., Any]] = {}
        self._lock = Lock()
        self._errors: list[BaseException] = []
        self._context = Context()

    def callbacks(self, module: Any) -> list[Callable[..., Arrays]]:
        """The functions that a module calls, in order; calls of them replace its kernels.

        Raises:
            NotModelled: for a kernel or a function of another process, with the program's line.
        """
        callables: list[Callable[..., Arrays]] = []
        for op in _calls_in(module.body) if self.has_kernels else ():
            callables.append(self._function_of(op))
            private.call_python(op, len(callables) - 1)
        return callables

    def run(self, compute: Callable[[], list[list[HostArray]]]) -> list[list[HostArray]]:
        """The results of `compute`; a program with kernels waits for all of them.

        Raises:
            BaseException: the error of a kernel.
        """
        if not self.has_kernels:
            return compute()
        with self._lock:
            self._context = copy_context()
            try:
                results = compute()
                failures = [error_of([array]) for result in results for array in result]
                for error in (*self._errors, *failures):
                    if error is not None:
                        raise error
                return results
            finally:
                self._errors.clear()

    def _function_of(self, op: Any) -> Callable[..., Any]:
        """The function that an operation calls; zeros after an error."""
        location = str(op.location)
        if op.attributes["call_target_name"].value in CALLBACK_TARGETS:
            number = private.callback_number(op)
            function = self._functions.setdefault(number, functions.of(number))
            return self._guard(function, private.zeros_of(op), location)
        call = _call_of(op)

        def run_kernel(*operands: npt.NDArray[Any]) -> Arrays:
            arrays = [np.asarray(operand) for operand in operands]
            return tuple(map(np.ascontiguousarray, call.values(arrays, target().name)))

        def zeros() -> Arrays:
            specs = call.outline(target().name).specs
            return tuple(np.zeros(spec.shape, spec.numpy_dtype) for spec in specs)

        return self._guard(run_kernel, zeros, location)

    def _guard(
        self, function: Callable[..., Any], zeros: Callable[[], Any], location: str
    ) -> Callable[..., Any]:
        """A function in the caller's context; zeros after an error, which `run` raises."""

        def compute(*operands: Any) -> Any:
            if not self._errors:
                try:
                    return self._context.copy().run(function, *operands)
                except BaseException as error:  # noqa: BLE001  `run` raises it
                    self._errors.append(_with_line(error, location))
            return zeros()

        return compute


def _calls_in(block: Any) -> Iterator[Any]:
    """The calls of kernels and of functions in a block and its inner blocks."""
    for view in block.operations:
        op = view.operation
        is_call = op.name == "stablehlo.custom_call"
        if is_call and op.attributes["call_target_name"].value in (
            KERNEL_TARGET,
            *CALLBACK_TARGETS,
        ):
            yield op
        for region in op.regions:
            for inner_block in region.blocks:
                yield from _calls_in(inner_block)


def _call_of(op: Any) -> KernelCall:
    """The kernel that an operation calls.

    Raises:
        NotModelled: another process made it; with the program's line.
    """
    try:
        return call_of(op.attributes["backend_config"].value)
    except NotModelled as error:
        raise _with_line(error, str(op.location)) from None


def _with_line(error: BaseException, location: str) -> BaseException:
    """An error with the line of the program that calls the kernel, unless it has one of its own."""
    if isinstance(error, EmulatorError) and not (error.line and is_program(error.line.file)):
        from trnsim.jax.stablehlo.origins import line_in  # noqa: PLC0415  slow to import

        error.line = line_in(location)
    return error
