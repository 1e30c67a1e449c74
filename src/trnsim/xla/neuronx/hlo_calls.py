"""`xla_hlo_call`: functions that write operations of HLO, computed by PyTorch's operators.

Such a function gets tensors with `dtype`, `sizes` and `scribe`, and names operations as methods of
a type: ``dtype[shape].DynamicUpdateSlice(tensor, update, *starts)``. Operations that programs
write so are here; another is refused by name.

Sources: neuronx-distributed-inference modules/kvcache/utils.py, modules/generation/sampling.py,
models/layer_boundary_marker.py, and neuronx-distributed modules/moe/blockwise.py; StableHLO
Specification for their meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, NoReturn

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled

_DTYPES: Final = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "s64": torch.int64,
    "s32": torch.int32,
    "s16": torch.int16,
    "s8": torch.int8,
    "u8": torch.uint8,
    "u32": torch.int64,
    "u64": torch.int64,
    "pred": torch.bool,
}
"""PyTorch's dtype of each type of HLO; a wider dtype for unsigned types that it lacks."""
_MARKERS: Final = ("AwsNeuronModuleMarkerStart", "AwsNeuronModuleMarkerEnd")
"""Prefixes of custom calls that return their operand."""
_UNIFORM: Final = 1
"""The number of the uniform distribution in HLO's protobufs, RNG_UNIFORM."""
_SOURCE: Final = "StableHLO Specification"


class HloOperationAbsent(NotModelled, AttributeError):
    """An operation of HLO that no program here writes."""


def xla_hlo_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch's tensors that computes what `function` writes in HLO."""

    @wraps(function)
    def call(*args: Any) -> Any:
        results = function(*pytree.tree_map_only(Tensor, HloTensor, args))
        return pytree.tree_map_only(HloTensor, lambda result: result.value, results)

    return call


class HloTensor:
    """A tensor as a function that writes HLO sees it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> HloType:
        """Its element type."""
        return HloType(self.value.dtype, self.value.device)

    @property
    def scribe(self) -> Scribe:
        """The types of HLO, by name."""
        return Scribe(self.value.device)

    def dynamic_slice(self, starts: Sequence[Any], sizes: Sequence[int]) -> HloTensor:
        """A slice that begins at `starts`, which may be computed."""
        return self.dtype.DynamicSlice(self, *starts, dynamic_slice_sizes=sizes)

    def CustomCall(self, *args: Any, custom_call_target: str = "", **options: Any) -> Any:  # noqa: N802  HLO's name
        """The result of a call of AWS's compiler, of this type."""
        return self.dtype.CustomCall(*args, custom_call_target=custom_call_target, **options)


class Scribe:
    """The types of HLO, by name: ``scribe.f32``."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> HloType:
        if name not in _DTYPES:
            _refuse_name(f"scribe.{name}", f"types: {', '.join(_DTYPES)}")
        return HloType(_DTYPES[name], self._device)

    def tuple(self, *parts: Any) -> HloType:
        """The type of several results."""
        return HloType(parts[0].value.dtype, self._device)


class HloType:
    """An element type, perhaps with a shape, and the operations whose results have it."""

    def __init__(
        self, dtype: torch.dtype, device: torch.device, shape: Sequence[int] | None = None
    ) -> None:
        self._dtype = dtype
        self._device = device
        self._shape = None if shape is None else tuple(shape)

    def __getitem__(self, shape: Any) -> HloType:
        """The type with a shape."""
        lengths = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        return HloType(self._dtype, self._device, lengths)

    def __getattr__(self, name: str) -> NoReturn:
        operations = [method for method in vars(HloType) if method[0].isupper()]
        _refuse_name(name, f"operations: {', '.join(operations)}")

    def Constant(self, constant_value: Any) -> HloTensor:  # noqa: N802  HLO's name
        """A constant."""
        return HloTensor(torch.tensor(constant_value, dtype=self._dtype, device=self._device))

    def DynamicUpdateSlice(self, operand: Any, update: Any, *starts: Any) -> HloTensor:  # noqa: N802  likewise
        """A tensor with `update` written at `starts`, which are clamped so that it fits."""
        window = _window_indices("DynamicUpdateSlice", operand.value, starts, update.value.shape)
        return HloTensor(torch.index_put(operand.value, window, update.value))

    def DynamicSlice(  # noqa: N802  likewise
        self, operand: Any, *starts: Any, dynamic_slice_sizes: Sequence[int]
    ) -> HloTensor:
        """A slice that begins at `starts`, which are clamped so that it fits."""
        window = _window_indices("DynamicSlice", operand.value, starts, dynamic_slice_sizes)
        return HloTensor(operand.value[window])

    def Rng(self, minimum: Any, maximum: Any, distribution: int = _UNIFORM) -> HloTensor:  # noqa: N802  likewise
        """Uniform random numbers in [minimum, maximum)."""
        if distribution != _UNIFORM:
            _refuse_name(f"Rng(distribution={distribution})", "1, the uniform one")
        numbers = torch.rand(self._lengths(), dtype=self._dtype, device=self._device)
        return HloTensor(numbers * (maximum.value - minimum.value) + minimum.value)

    def Add(self, lhs: Any, rhs: Any) -> HloTensor:  # noqa: N802  likewise
        """The sum."""
        return HloTensor((lhs.value + rhs.value).to(self._dtype))

    def Multiply(self, lhs: Any, rhs: Any) -> HloTensor:  # noqa: N802  likewise
        """The product of elements."""
        return HloTensor((lhs.value * rhs.value).to(self._dtype))

    def Convert(self, operand: Any) -> HloTensor:  # noqa: N802  likewise
        """The elements in this type."""
        return HloTensor(operand.value.to(self._dtype))

    def Reshape(self, operand: Any) -> HloTensor:  # noqa: N802  likewise
        """The same elements in row-major order."""
        return HloTensor(operand.value.reshape(self._lengths()))

    def Transpose(self, operand: Any, dimensions: Sequence[int]) -> HloTensor:  # noqa: N802  likewise
        """Dimension i of the result is dimension ``dimensions[i]``."""
        return HloTensor(operand.value.permute(list(dimensions)))

    def Concatenate(self, *operands: Any, dimensions: Sequence[int] = (0,)) -> HloTensor:  # noqa: N802  likewise
        """Tensors one after the other."""
        return HloTensor(torch.cat([operand.value for operand in operands], dimensions[0]))

    def CustomCall(self, *operands: Any, custom_call_target: str = "", **options: Any) -> Any:  # noqa: N802  likewise
        """The operands of a marker of modules, the only target that is known.

        Raises:
            HloOperationAbsent: for any other target.
        """
        del options
        if not custom_call_target.startswith(_MARKERS):
            _refuse_name(f"CustomCall({custom_call_target!r})", "markers of modules")
        return operands[0] if len(operands) == 1 else tuple(operands)

    def _lengths(self) -> tuple[int, ...]:
        if self._shape is None:
            raise BadInput(
                "an operation of HLO of a type without a shape",
                fix="dtype[sizes].Rng(...)",
                source=_SOURCE,
                line=program_line(),
            )
        return self._shape


def _window_indices(
    name: str, tensor: Tensor, starts: Sequence[Any], sizes: Sequence[int]
) -> tuple[Tensor, ...]:
    """The indices of a window of a tensor, one tensor per dimension; they broadcast to the window.

    Raises:
        BadInput: for a window with other dimensions than the tensor, or a longer window.
    """
    shape = tuple(tensor.shape)
    is_legal = len(starts) == len(sizes) == len(shape) and all(
        0 <= size <= length for size, length in zip(sizes, shape, strict=True)
    )
    if not is_legal:
        raise BadInput(
            f"{name} of a window {list(sizes)} from {len(starts)} starts in a tensor "
            f"{list(shape)}; legal: a start and a size for each dimension, no longer than it",
            fix="give a start for each dimension of the tensor, and sizes within it",
            source=_SOURCE,
            line=program_line(),
        )
    indices = [
        _indices(start, size, length, tensor.device)
        for start, size, length in zip(starts, sizes, shape, strict=True)
    ]
    rank = len(indices)
    return tuple(
        index.reshape([-1 if place == dim else 1 for place in range(rank)])
        for dim, index in enumerate(indices)
    )


def _indices(start: Any, size: int, length: int, device: torch.device) -> Tensor:
    """The indices of a dimension, clamped as HLO does."""
    start_index = (
        start.value if isinstance(start, HloTensor) else torch.as_tensor(start, device=device)
    )
    start_index = start_index.to(torch.int64).reshape(()).clamp(0, length - size)
    return start_index + torch.arange(size, device=device)


def _refuse_name(name: str, replacement: str) -> NoReturn:
    raise HloOperationAbsent(
        f"{name} in a function of xla_hlo_call is not computed here; {replacement}",
        fix="write it with PyTorch's operators",
        source=_SOURCE,
        line=program_line(),
    )
