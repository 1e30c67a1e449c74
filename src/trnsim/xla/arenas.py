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
    """A conversion of all selected values within a nested value, by one call of a function.

    Args:
        convert_fn: function from the list of the selected values to a list of as many new values.
        select_fn: predicate of the values to convert.
    """

    def __init__(
        self, convert_fn: Callable[[list[Any]], Any], select_fn: Callable[[Any], bool]
    ) -> None:
        self._convert_fn = convert_fn
        self._select_fn = select_fn

    def transform(self, inputs: Any) -> Any:
        """`inputs` rebuilt with converted values; a value that occurs twice is converted once."""
        selected_values: dict[int, Any] = {}
        self._collect(inputs, selected_values, set())
        new_values_by_id = self._convert_fn([*selected_values.values()]) if selected_values else []
        return self._new_value(
            inputs, dict(zip(selected_values, new_values_by_id, strict=True)), {}
        )

    def _collect(self, value: Any, selected_values: dict[int, Any], visited_ids: set[int]) -> None:
        if self._select_fn(value):
            selected_values.setdefault(id(value), value)
        elif id(value) not in visited_ids:
            visited_ids.add(id(value))
            for part in _parts(value):
                self._collect(part, selected_values, visited_ids)

    def _new_value(
        self, value: Any, new_values_by_id: dict[int, Any], new_values: dict[int, Any]
    ) -> Any:
        if id(value) in new_values_by_id:
            return new_values_by_id[id(value)]
        if id(value) not in new_values:
            self._add_new_value(value, new_values_by_id, new_values)
        return new_values[id(value)]

    def _add_new_value(
        self, value: Any, new_values_by_id: dict[int, Any], new_values: dict[int, Any]
    ) -> None:
        """Put a new value in `new_values`, before its parts: a value may be within itself."""

        def parts(values: Iterable[Any]) -> list[Any]:
            return [self._new_value(part, new_values_by_id, new_values) for part in values]

        if isinstance(value, dict):
            new_dict: dict[Any, Any] = {}
            new_values[id(value)] = new_dict
            new_dict.update(zip(value, parts(value.values()), strict=True))
        elif isinstance(value, list | tuple):
            new_list: list[Any] = []
            new_values[id(value)] = new_list
            new_list.extend(parts(value))
        elif isinstance(value, set):
            new_values[id(value)] = {*parts(value)}
        else:
            new_values[id(value)] = value
            attributes = vars(value) if _is_plain_object(value) else {}
            new_attributes = dict(zip(attributes, parts(attributes.values()), strict=True))
            if any(new_attributes[name] is not attributes[name] for name in new_attributes):
                new_values[id(value)] = duplicate = copy.copy(value)
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


def copy_to_host(data: Any) -> Any:
    """`data` with a copy on the host of each tensor of the device."""

    def copy_tensors(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with cuts.fetch_together(tensors, _FETCH_KIND):
            return [tensor.detach().cpu() for tensor in tensors]

    return ToXlaTensorArena(
        copy_tensors, lambda value: isinstance(value, torch.Tensor) and is_neuron(value.device)
    ).transform(data)


def copy_to_device(data: Any, device: torch.device | str) -> Any:
    """`data` with each tensor of the host on the device."""
    return ToXlaTensorArena(
        lambda tensors: [tensor.to(device) for tensor in tensors],
        lambda value: isinstance(value, torch.Tensor) and value.device.type == "cpu",
    ).transform(data)
