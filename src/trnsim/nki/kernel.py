"""`@nki.jit`: kernels, their launch, and arrays on the way in and out.

A kernel called from Python runs on the emulated core and gives back the kind of array that it was
given; called from another kernel it is a plain function. Inputs that the kernel writes are written
in place.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from trnsim.dtypes import Array, as_dtype
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import CoreContext, has_current_core
from trnsim.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
_DEFAULT_TARGET = "trn3"  # nki_simulator.rst, Target Platform: unset means trn3
_LOGICAL_CORES = 2
_NO_NUMPY = ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2")


def default_target() -> str:
    """The target that AWS's own entry points use: an environment variable, else trn3."""
    return os.environ.get(TARGET_VARIABLE, _DEFAULT_TARGET)


class Kernel:
    """A function that issues NeuronCore instructions (a `trnsim.run.Launchable`)."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function = function
        self._options = dict(options)
        functools.update_wrapper(self, function)

    @property
    def title(self) -> str:
        """The function's name."""
        return self._function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a kernel a plain call; outside, a run for the default target."""
        if has_current_core():
            return self._function(*args, **kwargs)
        return run(self, *args, target=default_target(), kernel_kwargs=kwargs).outputs

    def __getitem__(self, grid: Any) -> Kernel:
        """The kernel for a launch grid; one logical core is what is emulated so far.

        Raises:
            NotModelled: for two cores (LNC=2).
            BadInput: for any other grid.
        """
        degree = grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid
        if degree == 1:
            return self
        if degree == _LOGICAL_CORES:
            raise NotModelled(
                f"{self.title}[2]: LNC=2, two cores running one kernel, is not emulated yet",
                fix="launch it on one core: kernel(...)",
                source="nki.jit",
            )
        raise BadInput(
            f"{self.title}[{grid}]; legal: kernel[1] or kernel[2]",
            fix="the launch grid is the number of logical cores",
            source="nki.jit",
        )

    def launch(
        self, context: CoreContext, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> object:
        """Issue the kernel's instructions to `context`; outputs as the caller's kind of array."""
        bound = self._bind(args, kwargs)
        boundary = Boundary(context)
        given = {name: boundary.enter(name, value) for name, value in bound.items()}
        result = self._call(given)
        boundary.write_back()
        return boundary.leave(result)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        signature = inspect.signature(self._function)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadInput(
                f"{self.title}{signature} was called with {len(args)} positional and "
                f"{sorted(kwargs)} keyword arguments: {error}",
                fix="pass one argument for each parameter of the kernel",
            ) from error
        return dict(bound.arguments)

    def _call(self, given: dict[str, Any]) -> Any:
        """The function with its arguments put back where the signature wants them."""
        bound = inspect.signature(self._function).bind_partial()
        bound.arguments.update(given)
        return self._function(*bound.args, **bound.kwargs)


class Boundary:
    """Arrays become HBM tensors on the way in, and the caller's kind of array on the way out."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._copies: list[tuple[Array, Array]] = []
        self._torch: Any = None

    def enter(self, name: str, value: Any) -> Any:
        """`value` as the kernel sees it; containers are entered element by element."""
        if isinstance(value, tuple | list):
            entered = [self.enter(f"{name}[{i}]", item) for i, item in enumerate(value)]
            return _like(value, entered)
        if isinstance(value, dict):
            return {key: self.enter(f"{name}[{key!r}]", item) for key, item in value.items()}
        array = self._as_array(value)
        if array is None:
            return value
        try:
            dtype = as_dtype(array.dtype)
        except IllegalInstruction as error:
            raise IllegalInstruction(
                f"argument `{name}` is {array.dtype}, which a NeuronCore has not",
                fix=f"cast it before the call: {name}.astype('float32')",
                source=error.source,
            ) from None
        # What cannot be written in place is copied, as a device would.
        dense = np.ascontiguousarray(array) if array.flags.writeable else array.copy("C")
        if dense is not array and self._context.has_values:
            self._copies.append((array, dense))
        storage, pattern = self._context.memory.adopt(dense, name)
        return NkiTensor(storage, dtype, pattern, MemoryRegion.shared_hbm)

    def write_back(self) -> None:
        """Copy what the kernel may have written in place to arrays that were not contiguous."""
        for original, dense in self._copies:
            if original.flags.writeable:
                original[...] = dense.reshape(original.shape)

    def leave(self, result: Any) -> Any:
        """Tensors in `result` as arrays; containers element by element.

        Raises:
            IllegalInstruction: for a tensor that is not in shared HBM, or was never written.
        """
        if isinstance(result, tuple | list):
            return _like(result, [self.leave(item) for item in result])
        if not isinstance(result, NkiTensor):
            return result
        if result.memory.is_on_chip:
            _refuse_output(f"returned {result}, which is on chip", "return a tensor in shared HBM")
        if result.buffer is not MemoryRegion.shared_hbm:
            _refuse_output(
                f"returned {result} in {result.buffer.value}", "allocate it in nl.shared_hbm"
            )
        if not self._context.has_values:
            return None
        if not result.storage.written.covers(result.pattern, result.dtype.itemsize):
            _refuse_output(
                f"returned {result}, of which some elements were never written",
                "write every element before returning the tensor",
            )
        return self._as_given(result.array)

    def _as_array(self, value: Any) -> Array | None:
        if isinstance(value, np.ndarray):
            return value
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            import torch  # noqa: PLC0415  the caller has imported it already

            self._torch = torch
            host = value.detach().cpu()
            if str(host.dtype) in _NO_NUMPY:  # numpy has the bits, ml_dtypes their meaning
                bits = {1: torch.uint8, 2: torch.int16}[host.element_size()]
                as_bits: Array = host.view(bits).numpy()
                return as_bits.view(as_dtype(host.dtype).dtype)
            plain: Array = host.numpy()
            return plain
        return None

    def _as_given(self, array: Array) -> Any:
        if self._torch is None:
            return array
        torch = self._torch
        name = f"torch.{array.dtype}"
        if name in _NO_NUMPY:
            bits = np.dtype(f"i{array.itemsize}") if array.itemsize > 1 else np.dtype(np.uint8)
            dtype = getattr(torch, str(array.dtype))
            return torch.from_numpy(array.view(bits)).view(dtype)
        return torch.from_numpy(array)


def _like(container: Any, items: list[Any]) -> Any:
    """`items` in a container of the same type; named tuples take them one by one."""
    kind = type(container)
    return kind(*items) if hasattr(container, "_fields") else kind(items)


def _refuse_output(what: str, fix: str) -> NoReturn:
    raise IllegalInstruction(f"the kernel {what}", fix=fix, source="nki/migration/index.rst")


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`@nki.jit` or `@nki.jit(...)`: make a function a kernel.

    Source: nki.jit.
    """
    if function is None:
        return functools.partial(jit, **options)
    if isinstance(function, Kernel):
        return function
    return Kernel(function, options)


def simulate(kernel: Any) -> Callable[..., Any]:
    """A callable that runs `kernel` on the emulated core, for AWS's entry point of that name.

    A plain function is wrapped first. Source: nki.simulate.
    """
    wrapped: Kernel = jit(kernel)

    @functools.wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Any:
        return run(wrapped, *args, target=default_target(), kernel_kwargs=kwargs).outputs

    return call
