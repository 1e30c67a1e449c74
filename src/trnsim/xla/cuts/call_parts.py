"""Tensors and arguments of a call, as a recording reads them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch.aten.operator_call import tensors_in
from trnsim.xla.cuts.rules import RecordingRule
from trnsim.xla.cuts.values import FILLED, VIEW, Geometry, RecordedValue

_base: Final[Any] = torch._C.TensorBase  # noqa: SLF001  programs may replace those of Tensor
_address, _offset = _base.data_ptr, _base.storage_offset


def place_of(tensor: Tensor) -> tuple[int, Geometry]:
    """The address of a tensor's storage, 0 without elements, and the tensor's geometry."""
    dtype, offset = tensor.dtype, _offset(tensor)
    address = _address(tensor)
    geometry = (tensor.shape, tensor.stride(), offset, dtype)
    return (address - offset * dtype.itemsize if address else 0), geometry


def number_dtype(args: Any, result: Any) -> Any:
    """The dtype in which a call reads numbers: that of its first tensor."""
    tensors = tensors_in([*args, result])
    return tensors[0].dtype if tensors else torch.get_default_dtype()


def span_bytes(geometry: Geometry) -> int:
    """Bytes from the first to the last element of a tensor."""
    shape, strides, _, dtype = geometry
    if 0 in shape:
        return 0
    last_offset = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return (last_offset + 1) * int(dtype.itemsize)


def is_new(value: RecordedValue) -> bool:
    """True for a value in new, filled memory, and for its views."""
    while value.node is not None and value.node.signature.name == VIEW:
        source = value.node.operands[0]
        if not isinstance(source, RecordedValue):
            return False
        value = source
    return value.node is not None and value.node.signature.name == FILLED


def has_generator(rule: RecordingRule, args: Any, kwargs: Any) -> bool:
    """True for a call with a generator, which the host computes."""
    if not rule.is_random or "generator" not in rule.arguments:
        return False
    place = rule.arguments.index("generator")
    return (args[place] if place < len(args) else kwargs.get("generator")) is not None


def is_argument_one(rule: RecordingRule, name: str, args: Any, kwargs: Any) -> bool:
    """True if an argument of a call is 1, as it is by default."""
    place = rule.arguments.index(name)
    return bool((args[place] if place < len(args) else kwargs.get(name, 1)) == 1)


def new_results(rule: RecordingRule, result: Any) -> list[Tensor]:
    """The results of a call that lie in new memory."""
    if not rule.returned:
        return []
    if len(rule.returned) == 1:
        return tensors_in(result) if rule.returned[0] else []
    parts = zip(rule.returned, result, strict=True)
    return [tensor for is_new, part in parts if is_new for tensor in tensors_in(part)]


def written_tensors(rule: RecordingRule, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that a call writes to."""
    tensors: list[Tensor] = []
    for place, name in rule.written:
        tensors += tensors_in(args[place] if place < len(args) else kwargs.get(name))
    if rule.statistics and args[rule.statistics[-1]]:
        tensors += tensors_in([args[place] for place in rule.statistics[:-1]])
    return tensors


def result_positions(rule: RecordingRule, result: Any) -> tuple[int, ...]:
    """Indices of the tensors among a call's results; () if every result is a tensor."""
    if not all(rule.returned) or rule.statistics:
        return ()
    tensors = [index for index, part in enumerate(result) if isinstance(part, Tensor)]
    return () if len(tensors) == len(result) else tuple(tensors)
