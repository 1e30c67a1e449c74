"""Conversion of all tensors within nested values by one call, as torch_xla's arena does it.

Lists and dicts are rebuilt. A tuple becomes a list, and a subclass of `dict` a dict.

Source: torch_xla 2.9.0, core/xla_model.py, class ToXlaTensorArena; utils/utils.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from trnsim.torch.device_name import is_neuron
from trnsim.xla.cuts.cutting import cuts

_FETCH_KIND: Final = "copy to the host of several tensors"


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
        """`inputs` rebuilt with converted values; a value that occurs twice is converted once."""
        selected: dict[int, Any] = {}
        self._collect(inputs, selected, set())
        converted = self._convert_fn([*selected.values()]) if selected else []
        return self._rebuilt(inputs, dict(zip(selected, converted, strict=True)), {})

    def _collect(self, value: Any, selected: dict[int, Any], visited_ids: set[int]) -> None:
        if self._select_fn(value):
            selected.setdefault(id(value), value)
        elif id(value) not in visited_ids:
            visited_ids.add(id(value))
            for part in _parts(value):
                self._collect(part, selected, visited_ids)

    def _rebuilt(self, value: Any, converted: dict[int, Any], rebuilt: dict[int, Any]) -> Any:
        if id(value) in converted:
            return converted[id(value)]
        if id(value) not in rebuilt:
            self._rebuild(value, converted, rebuilt)
        return rebuilt[id(value)]

    def _rebuild(self, value: Any, converted: dict[int, Any], rebuilt: dict[int, Any]) -> None:
        """Put a new value in `rebuilt`, before its parts: a value may be within itself."""

        def parts(values: Iterable[Any]) -> list[Any]:
            return [self._rebuilt(part, converted, rebuilt) for part in values]

        if isinstance(value, dict):
            new_dict: dict[Any, Any] = {}
            rebuilt[id(value)] = new_dict
            new_dict.update(zip(value, parts(value.values()), strict=True))
        elif isinstance(value, list | tuple):
            new_list: list[Any] = []
            rebuilt[id(value)] = new_list
            new_list.extend(parts(value))
        elif isinstance(value, set):
            rebuilt[id(value)] = {*parts(value)}
        else:
            rebuilt[id(value)] = value
            attributes = vars(value) if _is_plain_object(value) else {}
            new_attributes = dict(zip(attributes, parts(attributes.values()), strict=True))
            if any(new_attributes[name] is not attributes[name] for name in new_attributes):
                rebuilt[id(value)] = duplicate = copy.copy(value)
                vars(duplicate).update(new_attributes)


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


def on_host(data: Any) -> Any:
    """`data` with a copy on the host of each tensor of the device."""

    def copy_tensors(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with cuts.fetched(tensors, _FETCH_KIND):
            return [tensor.detach().cpu() for tensor in tensors]

    return ToXlaTensorArena(
        copy_tensors, lambda value: isinstance(value, torch.Tensor) and is_neuron(value.device)
    ).transform(data)


def on_device(data: Any, device: torch.device | str) -> Any:
    """`data` with each tensor of the host on the device."""
    return ToXlaTensorArena(
        lambda tensors: [tensor.to(device) for tensor in tensors],
        lambda value: isinstance(value, torch.Tensor) and value.device.type == "cpu",
    ).transform(data)
