"""Tensors within nested values: found, converted together, and put back in place.

Source: torch_xla 2.9.0, core/xla_model.py, class ToXlaTensorArena; utils/utils.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from trnsim.torch.device_name import is_neuron

__all__ = ["ToXlaTensorArena", "on_device", "on_host"]


class ToXlaTensorArena:
    """A conversion of all selected values within a nested one, in one call.

    Args:
        convert_fn: the function from the selected values to as many converted ones.
        select_fn: true of a value that is converted.
    """

    def __init__(
        self, convert_fn: Callable[[list[Any]], Any], select_fn: Callable[[Any], bool]
    ) -> None:
        self._convert_fn = convert_fn
        self._select_fn = select_fn

    def transform(self, inputs: Any) -> Any:
        """`inputs` with each selected value converted; a value that occurs twice is one again."""
        selected: dict[int, Any] = {}
        self._collect(inputs, selected, set())
        if not selected:
            return inputs
        converted = self._convert_fn([*selected.values()])
        return self._rebuilt(inputs, dict(zip(selected, converted, strict=True)), {})

    def _collect(self, value: Any, selected: dict[int, Any], seen: set[int]) -> None:
        if self._select_fn(value):
            selected.setdefault(id(value), value)
        elif id(value) not in seen:
            seen.add(id(value))
            for part in _parts(value):
                self._collect(part, selected, seen)

    def _rebuilt(self, value: Any, converted: dict[int, Any], rebuilt: dict[int, Any]) -> Any:
        if id(value) in converted:
            return converted[id(value)]
        if id(value) not in rebuilt:
            rebuilt[id(value)] = value  # of a value within itself
            parts = [*_parts(value)]
            changed = [self._rebuilt(part, converted, rebuilt) for part in parts]
            if any(new is not old for new, old in zip(changed, parts, strict=True)):
                rebuilt[id(value)] = _with_parts(value, changed)
        return rebuilt[id(value)]


def _is_plain_object(value: Any) -> bool:
    """True for an object with attributes, but for classes, functions, modules and tensors."""
    is_leaf = isinstance(value, type | torch.Tensor) or callable(value)
    return not is_leaf and hasattr(value, "__dict__") and not hasattr(value, "__spec__")


def _parts(value: Any) -> Iterator[Any]:
    """The values directly within a list, a tuple, a set, a dict or an object."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif _is_plain_object(value):
        yield from vars(value).values()


def _with_parts(value: Any, parts: list[Any]) -> Any:
    """A copy of a value with other parts."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts)
    if isinstance(value, tuple | set):
        return type(value)(parts)
    copied = copy.copy(value)
    if isinstance(value, list):
        copied[:] = parts
    elif isinstance(value, dict):
        copied.update(zip(value, parts, strict=True))
    else:
        vars(copied).update(zip(vars(value), parts, strict=True))
    return copied


def on_host(data: Any) -> Any:
    """`data` with a copy on the host of each tensor of the device."""
    return ToXlaTensorArena(
        lambda tensors: [tensor.detach().cpu() for tensor in tensors],
        lambda value: isinstance(value, torch.Tensor) and is_neuron(value.device),
    ).transform(data)


def on_device(data: Any, device: torch.device | str) -> Any:
    """`data` with each tensor of the host on the device."""
    return ToXlaTensorArena(
        lambda tensors: [tensor.to(device) for tensor in tensors],
        lambda value: isinstance(value, torch.Tensor) and value.device.type == "cpu",
    ).transform(data)
