"""The boundary of a launch: arrays become HBM tensors, results the caller's kind of array.

Arrays are numpy's, torch's or jax's; torch and jax are used only if the caller has imported them.
Inputs that the kernel writes change in place, except read-only ones such as jax arrays. An input
that is not contiguous, that is stored in another dtype, or that is on a device is copied. At the
end only bytes that instructions wrote are copied back, since other arguments may share the rest.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dis import get_instructions
from importlib import import_module
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from trnsim.absence import NoAttribute
from trnsim.behaviours.language import OUTPUT_IN_ANY_HBM
from trnsim.behaviours.tensors import JAX_DTYPES
from trnsim.dtypes import Array, as_dtype
from trnsim.errors import BadInput, EmulatorError, IllegalInstruction, SourceLine
from trnsim.memory import AccessPattern, ByteMask
from trnsim.nki.language.grids import NkiGrid
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.notices import refuse_list, refuse_or_warn
from trnsim.nki.precision import stored_dtype
from trnsim.nki.scalars import NkiScalar
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.nki.torch_tensors import DTYPES_WITHOUT_NUMPY, array_of, is_torch_tensor
from trnsim.program import CoreContext


@dataclass(frozen=True)
class _Copy:
    """The copy of an argument on which the kernel works.

    Attributes:
        name: the argument's name, for errors.
        argument: the array, or the tensor on a device.
        dense_array: the copy, which is contiguous.
        changed_bytes: the bytes of the copy that instructions wrote.
    """

    name: str
    argument: Any
    dense_array: Array
    changed_bytes: ByteMask

    def copy_back(self, array: Array) -> None:
        """Write the changed bytes of `array` back to the argument.

        Raises:
            BadInput: if several of its elements share memory.
        """
        dimensions = zip(array.shape, array.strides, strict=True)
        if any(length > 1 and stride == 0 for length, stride in dimensions):
            raise BadInput(
                f"the kernel writes argument `{self.name}`, of which several elements are the same "
                f"bytes: shape {array.shape}, strides {array.strides} bytes",
                fix="copy what was broadcast or expanded before the call, and pass the copy",
            )
        dense = self.dense_array.reshape(array.shape)
        if self.changed_bytes.is_full:
            array[...] = dense
            return
        every_byte = AccessPattern((dense.nbytes,), (1,), 0)
        is_changed = self.changed_bytes.flags(every_byte, 1).reshape(*dense.shape, dense.itemsize)
        if array.dtype == dense.dtype:
            np.copyto(_bytes_of(array), _bytes_of(dense), where=is_changed)
        else:
            np.copyto(array, dense, "unsafe", where=is_changed.any(axis=-1))


class Boundary:
    """The tensors that entered one launch, and the way back to the caller's arrays.

    Attributes:
        tensors: the kernel's tensor for each array that entered, in order of entry.
    """

    def __init__(self, context: CoreContext, kernel_line: SourceLine | None = None) -> None:
        """A boundary for a core; refusals of results name the line of the kernel's definition."""
        self.tensors: list[NkiTensor] = []
        self._arrays: list[Any] = []
        self._context = context
        self._kernel_line = kernel_line
        self._copies: dict[Hashable, _Copy] = {}
        self._torch: Any = None
        self._device: Any = None
        self._jax: Any = None

    def enter(self, name: str, value: Any) -> Any:
        """`value` with a tensor in the place of each array, also inside containers."""
        if value.__class__ is np.ndarray:  # the usual case
            return self._adopt(name, value, value)
        if isinstance(value, tuple | list):
            refuse_list(name, value, self._context.core.nki)
            items = [self.enter(f"{name}[{i}]", item) for i, item in enumerate(value)]
            return rebuild(value, items)
        if isinstance(value, dict):
            return {key: self.enter(f"{name}[{key!r}]", item) for key, item in value.items()}
        if isinstance(value, NKIObject):
            return self._enter_object(name, value)
        if isinstance(value, NkiTensor):
            raise IllegalInstruction(
                f"argument `{name}` is {value}, a tile of another run of a kernel",
                fix="return it in shared HBM from that run, and pass the array that comes back",
            )
        array = self._as_array(value)
        return self._as_dtype(name, value) if array is None else self._adopt(name, value, array)

    def positions(self, arrays: Sequence[Any]) -> list[int | None]:
        """For each array that entered, its position among a call's `arrays`.

        None for an array that is an attribute of an object. Arrays enter in the order of the
        kernel's parameters; a call may name its arguments in another order.
        """
        unmatched = dict(enumerate(arrays))
        positions = list[int | None]()
        for entered in self._arrays:
            position = next((n for n, array in unmatched.items() if array is entered), None)
            positions.append(position)
            if position is not None:
                del unmatched[position]
        return positions

    def write_back(self) -> None:
        """Write the changed bytes of all copies back to their arguments.

        Raises:
            BadInput: for an argument that was broadcast.
        """
        for duplicate in self._copies.values():
            if duplicate.changed_bytes.is_empty:
                continue
            if isinstance(duplicate.argument, np.ndarray):
                duplicate.copy_back(duplicate.argument)
            else:  # another argument's copy may have been written back to it meanwhile
                current = self._from_torch(duplicate.argument)
                duplicate.copy_back(current)
                duplicate.argument.copy_(self._as_torch(current))

    def leave(self, result: Any) -> Any:
        """`result` with an array in the place of each tensor, also inside containers.

        An error names the line of the kernel that allocated the tensor.

        Raises:
            IllegalInstruction: for a tensor that is not in shared HBM, that reaches beyond its
            storage, or that has elements never written, unless it runs as on AWS's simulator.
        """
        if isinstance(result, NkiTensor):
            return self._leave_tensor(result)
        if isinstance(result, tuple | list):
            return rebuild(result, [self.leave(item) for item in result])
        if isinstance(result, dict):
            return {key: self.leave(item) for key, item in result.items()}
        if isinstance(result, set | frozenset | Iterator | NkiGrid):
            _refuse_output(
                f"returned a {type(result).__name__}",
                "return tensors, or a tuple, list or dict",
                self._kernel_line,
            )
        if isinstance(result, NkiScalar):
            _refuse_output(
                "returned a scalar, which has no value for the caller",
                "store it with nisa.scalar_store in a tensor, and return that in nl.shared_hbm",
                self._kernel_line,
            )
        return result

    def _leave_tensor(self, result: NkiTensor) -> Any:
        """The array of an output."""
        line = self._check_place(result)
        if not self._context.has_values:
            return None
        if not result.storage.written.covers(result.pattern, result.dtype.itemsize):
            refuse_or_warn(
                f"the kernel returned {result}, of which some elements were never written",
                "write every element before returning the tensor",
                "nki_simulator.rst, Uninitialized Memory Detection",
                line,
            )
        return self._as_caller_array(result, line)

    def _check_place(self, result: NkiTensor) -> SourceLine | None:
        """Refuse an output that is not within shared HBM; returns the line that allocated it."""
        storage = result.storage
        line = self._kernel_line if storage.is_argument else storage.line
        if result.memory.is_on_chip:
            _refuse_output(
                f"returned {result}, which is on chip",
                "copy it with nisa.dma_copy to a tensor in nl.shared_hbm, and return that",
                line,
            )
        if result.buffer is not MemoryRegion.shared_hbm:
            reason = f"the kernel returned {result} in {result.buffer.value}"
            OUTPUT_IN_ANY_HBM.require(self._context.core.nki, reason, line)
        if storage.is_exchanged:
            _refuse_output(
                f"returned {result}, which a collective reads or writes",
                "copy it with nisa.dma_copy to a tensor of its own, and return that: a collective "
                "cannot access IO tensors (compiler error in checkCollective)",
                line,
            )
        try:
            _ = result.layout
        except IllegalInstruction as error:
            raise IllegalInstruction(
                f"the kernel returned {error.reason}", fix=error.fix, source=error.source, line=line
            ) from None
        return line

    def _enter_object(self, name: str, value: NKIObject) -> NKIObject:
        attributes = {key: self.enter(f"{name}.{key}", item) for key, item in vars(value).items()}
        if all(attributes[key] is item for key, item in vars(value).items()):
            return value
        twin = copy.copy(value)
        vars(twin).update(attributes)
        return twin

    def _adopt(self, name: str, value: Any, array: Array) -> NkiTensor:
        """The HBM tensor of an argument, over the caller's memory where that is possible.

        Args:
            name: the argument's name, for errors.
            value: the caller's object.
            array: its elements as a numpy array, perhaps a copy.
        """
        try:
            dtype = stored_dtype(array.dtype)
        except IllegalInstruction as error:
            legal_dtype = "int32" if array.dtype.kind in "iu" else "float32"
            # Formats of ml_dtypes, such as int4, are kind "V" as structures are.
            is_format = array.dtype.kind == "V" and not issubclass(array.dtype.type, np.void)
            if is_format and "int" in array.dtype.name:
                legal_dtype = "uint8" if "uint" in array.dtype.name else "int8"
            if not array.dtype.isnative:
                legal_dtype = array.dtype.newbyteorder("=").name
            is_torch = hasattr(value, "detach")
            convert = f"to(torch.{legal_dtype})" if is_torch else f"astype({legal_dtype!r})"
            cast = f"cast it before the call: {name}.{convert}"
            raise IllegalInstruction(
                f"argument `{name}` is {array.dtype}, which no NeuronCore has",
                fix=cast
                if is_format or array.dtype.kind in "fiubc"
                else "give an array of numbers",
                source=error.source,
            ) from None
        duplicate = self._copies.get(_memory_key(value, array)) if self._copies else None
        if duplicate is not None:  # another argument with the same elements
            dense = duplicate.dense_array
        elif array.dtype != dtype.dtype:
            dense = np.ascontiguousarray(array, dtype.dtype)
        else:
            # An array that cannot be written in place is copied, as a device would.
            dense = np.ascontiguousarray(array) if array.flags.writeable else array.copy("C")
        storage, pattern = self._context.memory.adopt(dense, name, dtype)
        self.tensors.append(NkiTensor(storage, dtype, pattern, MemoryRegion.shared_hbm))
        self._arrays.append(value)
        argument = value if value is not array and _is_on_device(value) else array
        can_change = array.flags.writeable and self._context.has_values
        if duplicate is None and can_change and dense is not argument:
            duplicate = _Copy(name, argument, dense, ByteMask(storage.nbytes))
            self._copies[_memory_key(value, array)] = duplicate
        storage.changed = duplicate.changed_bytes if duplicate is not None else None
        return self.tensors[-1]

    def _as_dtype(self, name: str, value: Any) -> Any:
        """The dtype of a jax scalar type such as jnp.bfloat16; any other value unchanged."""
        if type(value).__name__ != "_ScalarMeta" or not hasattr(value, "dtype"):
            return value
        version = self._context.core.nki
        if not version.follows(JAX_DTYPES):
            raise JAX_DTYPES.refusal(version, f"argument `{name}` is JAX's {value.dtype}")
        return as_dtype(np.dtype(value.dtype))

    def _as_array(self, value: Any) -> Array | None:
        """The numpy array of an array of numpy, torch or jax; None for any other value."""
        if isinstance(value, np.ma.MaskedArray | np.matrix):
            _refuse_subclass(value)
        if isinstance(value, np.ndarray):
            return value
        package = type(value).__module__.partition(".")[0]
        if is_torch_tensor(value):
            return self._from_torch(value)
        if package in ("jax", "jaxlib") and hasattr(value, "__array__"):
            self._jax = import_module("jax.numpy")
            return np.asarray(value)
        return None

    def _from_torch(self, value: Any) -> Array:
        self._torch = import_module("torch")
        self._device = self._device or value.device
        return array_of(value, "an argument")

    def _as_caller_array(self, result: NkiTensor, line: SourceLine | None) -> Any:
        array = result.array
        try:
            if self._jax is not None:
                return self._jax.asarray(array)
            if self._torch is None:
                return array
            return self._as_torch(array).to(self._device)
        except TypeError:
            library = "torch" if self._jax is None else "jax"
            bits = f"nl.uint{8 * array.itemsize}"
            _refuse_output(
                f"returned {result}, whose dtype does not exist in {library}",
                f"return its bits, tensor.view({bits}), or pass numpy's arrays, not {library}'s",
                line,
            )

    def _as_torch(self, array: Array) -> Any:
        torch = self._torch
        if f"torch.{array.dtype}" in DTYPES_WITHOUT_NUMPY:
            bits = np.dtype(f"i{array.itemsize}") if array.itemsize > 1 else np.dtype(np.uint8)
            return torch.from_numpy(array.view(bits)).view(getattr(torch, str(array.dtype)))
        return torch.from_numpy(array)


def _is_on_device(value: Any) -> bool:
    """True if `value` is a torch tensor on a device, which the host reads as a copy."""
    return hasattr(value, "detach") and str(value.device) != "cpu"


def _memory_key(value: Any, array: Array) -> Hashable:
    """Key of the elements in memory; equal for the same elements, or the same device tensor."""
    if _is_on_device(value):
        return id(value)
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _bytes_of(array: Array) -> Array:
    """A view of an array's bytes, with a last axis for the bytes of an element."""
    return array[..., None].view(np.uint8)


def rebuild(container: Any, items: list[Any]) -> Any:
    """`items` in a container of the same type; named tuples take them as arguments."""
    kind = type(container)
    return kind(*items) if hasattr(container, "_fields") else kind(items)


def _refuse_subclass(array: Array) -> NoReturn:
    """Refuse a subclass of numpy's arrays with more than values, such as a masked array."""
    is_masked = isinstance(array, np.ma.MaskedArray)
    raise BadInput(
        "an argument is a masked array; tensors of a NeuronCore have no mask"
        if is_masked
        else "an argument is a numpy.matrix, whose operators differ from a tensor's",
        fix="fill it: array.filled(0.0), and pass the mask as an array of its own"
        if is_masked
        else "pass numpy.asarray(matrix)",
    )


def _refuse_output(reason: str, fix: str, line: SourceLine | None) -> NoReturn:
    raise IllegalInstruction(
        f"the kernel {reason}", fix=fix, source="nki/migration/index.rst", line=line
    )


def refuse_argument_read_as_tensor(
    error: AttributeError, title: str, function: object, arguments: Mapping[str, object]
) -> None:
    """Refuse an argument of a kernel that is no array, and of which the kernel read an attribute.

    Args:
        error: the error of the kernel's own code.
        title: the kernel's name.
        function: the kernel's function.
        arguments: its arguments by name.

    Raises:
        NoAttribute: names the argument, if the attribute is one of tensors.
    """
    if isinstance(error, EmulatorError) or error.name is None or not hasattr(NkiTensor, error.name):
        return
    name = _variable_without_attribute(error, getattr(function, "__code__", None))
    if name is not None and name in arguments and arguments[name] is error.obj:
        raise NoAttribute(
            f"{title} reads .{error.name} of its argument `{name}`, which is {error.obj!r}",
            fix="pass an array of numpy, torch or jax",
        ) from error


def _variable_without_attribute(error: AttributeError, code: CodeType | None) -> str | None:
    """The local variable of `code` whose attribute is missing; None if it is read elsewhere."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if code is None or traceback is None or traceback.tb_frame.f_code is not code:
        return None
    preceding_steps = [step for step in get_instructions(code) if step.offset < traceback.tb_lasti]
    if not preceding_steps or not preceding_steps[-1].opname.startswith(
        ("LOAD_FAST", "LOAD_DEREF")
    ):
        return None
    names: str | tuple[str, str] = preceding_steps[
        -1
    ].argval  # an instruction of Python 3.13 may load two
    return names if isinstance(names, str) else names[-1]
