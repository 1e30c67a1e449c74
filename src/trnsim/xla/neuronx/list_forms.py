"""`torch_neuronx.xla_impl.structure`: arguments as a list of tensors, and results from such a list.

neuronx-distributed saves an object of either class as the texts of its attributes.

Source: neuronx-distributed trace/nxd_model/nxd_model.py, NxDModel.load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from trnsim.torch.traces.structure import NestedValue


class Flattener:
    """The conversion of a list of arguments to the program's tensors.

    Attributes:
        layout: the indices of the arguments, in order.
        exclude: indices of arguments that the program does not take; None for none.
    """

    def __init__(self, layout: Sequence[int], exclude: Sequence[int] | None = None) -> None:
        self.layout = layout
        self.exclude = exclude

    def __call__(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The program's tensors."""
        excluded_places = self.exclude or ()
        return [arguments[place] for place in self.layout if place not in excluded_places]


class Packer:
    """The conversion of a program's outputs to the function's result.

    Attributes:
        layout: the nesting of the result, with a number for each tensor and constant.
        identifiers: numbers in `layout` of the tensors, which are indices of outputs.
        constants: the constants, by their numbers in `layout`.
    """

    def __init__(self, layout: Any, identifiers: Sequence[int], constants: dict[int, Any]) -> None:
        self.layout = layout
        self.identifiers = identifiers
        self.constants = constants

    @classmethod
    def of(cls, result: NestedValue) -> Packer:
        """The packer of a result of nested lists, tuples and dicts."""
        packer = cls(None, [], {})
        packer.layout = packer._number_parts(result)
        return packer

    def _number_parts(self, value: NestedValue) -> Any:
        """A result with numbers in place of tensors (0 or more) and of constants (below 0)."""
        if value.kind == "tensor":
            self.identifiers = [*self.identifiers, value.content]
            return value.content
        if value.kind == "constant":
            number = -1 - len(self.constants)
            self.constants[number] = value.content
            return number
        parts = [self._number_parts(part) for part in value.parts]
        if value.kind == "dict":
            return dict(zip(value.keys, parts, strict=True))
        return parts if value.kind == "list" else tuple(parts)

    def __call__(self, outputs: Sequence[Tensor]) -> Any:
        """The result."""
        return self._pack(self.layout, outputs)

    def _pack(self, layout: Any, outputs: Sequence[Tensor]) -> Any:
        if isinstance(layout, dict):
            return {key: self._pack(part, outputs) for key, part in layout.items()}
        if isinstance(layout, list | tuple):
            parts = [self._pack(part, outputs) for part in layout]
            return parts if isinstance(layout, list) else tuple(parts)
        return self.constants[layout] if layout in self.constants else outputs[layout]
