"""NKI kernels in a program that XLA's CPU client computes: it calls back, and they are emulated.

The custom call of a kernel becomes a call of a function of Python, which XLA's client makes where
the value is wanted, also in loops and branches. Such a program is waited for, and no callback
raises: on several devices the others would wait at their next exchange for one that has ended, and
XLA ends the process then. What a kernel raises is raised when all devices are done.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from trnsim.device.device_core import target
from trnsim.device.program_line import is_program
from trnsim.errors import EmulatorError, NotModelled
from trnsim.jax import private
from trnsim.jax.host_client import error_of
from trnsim.jax.kernel_calls import TARGET, call_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from trnsim.device.kernel_call import KernelCall
    from trnsim.jax.host_client import HostArray

    Arrays = tuple[npt.NDArray[Any], ...]


class HostKernels:
    """The kernels of a program.

    Attributes:
        are_there: whether it may have any.
    """

    def __init__(self, code: bytes) -> None:
        self.are_there = TARGET.encode() in code
        self._lock = Lock()
        self._raised: list[BaseException] = []
        self._context = Context()

    def callbacks(self, module: Any) -> list[Callable[..., Arrays]]:
        """The functions that a module calls from now on in the place of its kernels, in order.

        Raises:
            NotModelled: for a kernel of another process, with the program's line.
        """
        found: list[Callable[..., Arrays]] = []
        for op in _calls_in(module.body) if self.are_there else ():
            call = _call_of(op)
            private.call_python(op, len(found))
            found.append(self._callback(call, str(op.location)))
        return found

    def run(self, compute: Callable[[], list[list[HostArray]]]) -> list[list[HostArray]]:
        """What `compute` gives; with kernels, once it is all there.

        Raises:
            BaseException: what a kernel raised.
        """
        if not self.are_there:
            return compute()
        with self._lock:
            self._context = copy_context()
            try:
                found = compute()
                ended = [error_of([array]) for result in found for array in result]
                for error in (*self._raised, *ended):
                    if error is not None:
                        raise error
                return found
            finally:
                self._raised.clear()

    def _callback(self, call: KernelCall, location: str) -> Callable[..., Arrays]:
        """The function that computes a kernel; zeros after an error."""

        def computed(*operands: npt.NDArray[Any]) -> Arrays:
            if not self._raised:
                try:
                    given = [np.asarray(one) for one in operands]
                    found = self._context.copy().run(call.values, given, target().name)
                    return tuple(map(np.ascontiguousarray, found))
                except BaseException as error:  # noqa: BLE001  `run` raises it
                    self._raised.append(_at(error, location))
            specs = call.outline(target().name).specs
            return tuple(np.zeros(one.shape, one.numpy_dtype) for one in specs)

        return computed


def _calls_in(block: Any) -> Iterator[Any]:
    """The calls of kernels in a block and those within it."""
    for one in block.operations:
        op = one.operation
        if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == TARGET:
            yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _calls_in(inner)


def _call_of(op: Any) -> KernelCall:
    """The kernel that an operation calls.

    Raises:
        NotModelled: another process made it; with the program's line.
    """
    try:
        return call_of(op.attributes["backend_config"].value)
    except NotModelled as error:
        raise _at(error, str(op.location)) from None


def _at(error: BaseException, location: str) -> BaseException:
    """An error with the line of the program that calls the kernel, where it has no line of its."""
    if isinstance(error, EmulatorError) and not (error.line and is_program(error.line.file)):
        from trnsim.jax.stablehlo.origins import line_in  # noqa: PLC0415  slow to import

        error.line = line_in(location)
    return error
