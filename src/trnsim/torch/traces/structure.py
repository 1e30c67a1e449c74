"""The nesting of a traced function's arguments and results, as text of TorchScript.

TorchScript has no function from nested values to a list of tensors, so each traced module has one
of its own, written here.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

_PRINTABLE: Final = {byte: chr(byte) for byte in range(32, 127) if chr(byte) not in '"\\'}
"""Characters that stand for themselves in a text of TorchScript, by their ASCII number."""
_TRACE: Final = "aws-neuron-sdk frameworks/torch/torch-neuronx, PyTorch NeuronX Tracing API"


@dataclass(frozen=True)
class NestedValue:
    """A nested value whose tensors have numbers.

    Attributes:
        kind: "tensor", "list", "tuple", "dict", or "constant" for a number, a text or None.
        parts: its parts; for a dictionary, in the order of its keys.
        content: the number of a tensor, or a constant.
    """

    kind: str
    parts: tuple[NestedValue, ...] = ()
    keys: tuple[str | int, ...] = ()
    content: Any = None

    @property
    def type(self) -> str:
        """Its type in TorchScript."""
        if self.kind == "list":
            return f"List[{self.parts[0].type if self.parts else 'Tensor'}]"
        if self.kind == "tuple":
            return f"Tuple[{', '.join(part.type for part in self.parts) or '()'}]"
        if self.kind == "dict":
            return f"Dict[{type(self.keys[0]).__name__}, {self.parts[0].type}]"
        return "Tensor"

    def expression(self) -> str:
        """The TorchScript expression for the value, whose tensors are in the list `r`."""
        parts = [part.expression() for part in self.parts]
        if self.kind == "tensor":
            return f"r[{self.content}]"
        if self.kind == "list":
            return f"[{', '.join(parts)}]" if parts else "torch.jit.annotate(List[Tensor], [])"
        if self.kind == "tuple":
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if self.kind == "dict":
            pairs = zip(map(_literal, self.keys), parts, strict=True)
            return "{" + ", ".join(f"{key}: {part}" for key, part in pairs) + "}"
        return _literal(self.content)

    def reads(self, name: str) -> list[str]:
        """The expressions that read its tensors from the value `name`, in order."""
        if self.kind == "tensor":
            return [name]
        if self.kind == "constant":
            return []
        keys: tuple[Any, ...] = self.keys or tuple(range(len(self.parts)))
        return [
            expression
            for key, part in zip(keys, self.parts, strict=True)
            for expression in part.reads(f"{name}[{_literal(key)}]")
        ]

    def renumbered(self, positions: Mapping[int, int]) -> NestedValue:
        """The structure of the tensors that have positions, which become their numbers."""
        if self.kind == "tensor":
            return replace(self, content=positions[self.content])
        is_kept = [part.kind != "tensor" or part.content in positions for part in self.parts]
        parts = [
            part.renumbered(positions)
            for part, is_part in zip(self.parts, is_kept, strict=True)
            if is_part
        ]
        if not all(is_kept) and len(parts) == 1 and self.kind != "dict":
            return parts[0]
        keys = [key for key, is_part in zip(self.keys, is_kept, strict=False) if is_part]
        return replace(self, parts=tuple(parts), keys=tuple(keys))

    def constants(self) -> Iterator[NestedValue]:
        """Its parts that are no tensors."""
        if self.kind == "constant":
            yield self
        for part in self.parts:
            yield from part.constants()


def _literal(value: Any) -> str:
    """A constant in TorchScript, which has no escapes of Unicode and no names for infinity and NaN.

    Bytes of UTF-8 that are not printable in ASCII are escaped in octal.
    """
    if isinstance(value, str):
        content = value.encode(errors="replace")
        characters = (_PRINTABLE.get(byte, rf"\{byte:03o}") for byte in content)
        return f'"{"".join(characters)}"'
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if is_finite else f"float('{value}')"


def nesting_of(value: Any, numbers: Iterator[int], tensors: list[Tensor]) -> NestedValue:
    """The nesting of a result; its tensors, numbered by `numbers`, are added to `tensors`.

    A mapping whose values differ in their types becomes a tuple of its values: TorchScript has
    mappings of one type of values only.

    Raises:
        BadInput: for an object that TorchScript cannot return.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return NestedValue("tensor", content=next(numbers))
    if value is None or isinstance(value, bool | int | float | str):
        return NestedValue("constant", content=value)

    def nest(part: Any) -> NestedValue:
        return nesting_of(part, numbers, tensors)

    if isinstance(value, Mapping):
        return _mapping_nesting(value, nest)
    if isinstance(value, list | tuple):
        parts = tuple(map(nest, value))
        is_list = isinstance(value, list) and len({part.type for part in parts}) <= 1
        has_constants = any(part.kind == "constant" for part in parts)
        return NestedValue("list" if is_list and not has_constants else "tuple", parts)
    raise BadInput(
        f"a traced function returns or takes {_with_article(type(value).__name__)}; legal: "
        "tensors, and lists, tuples and dictionaries of tensors",
        fix="wrap the model in a module whose forward takes and returns these",
        source=_TRACE,
        line=program_line(),
    )


def _mapping_nesting(value: Mapping[Any, Any], nest: Callable[[Any], NestedValue]) -> NestedValue:
    values_by_key = {key: part for key, part in value.items() if part is not None}
    parts = tuple(map(nest, values_by_key.values()))
    keys = tuple(values_by_key)
    is_uniform = len({part.type for part in parts}) == 1 and len({type(key) for key in keys}) == 1
    if is_uniform and isinstance(keys[0], str | int) and parts[0].kind != "constant":
        return NestedValue("dict", parts, keys)
    return NestedValue("tuple", parts)


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def forward_text(
    names: list[str], arguments: list[NestedValue], results: NestedValue, body: list[str]
) -> str:
    """The method `forward` of a traced module.

    Args:
        names: names of its parameters.
        arguments: the nesting of each.
        results: the nesting of its result.
        body: lines that make the list `r` of results from the list `a` of the arguments' tensors.
    """
    parameters = [f"{name}: {part.type}" for name, part in zip(names, arguments, strict=True)]
    reads = [
        expression
        for name, part in zip(names, arguments, strict=True)
        for expression in part.reads(name)
    ]
    lines = [
        f"def forward({', '.join(['self', *parameters])}):",
        f"    a = torch.jit.annotate(List[Tensor], [{', '.join(reads)}])",
        *(f"    {line}" for line in body),
        f"    return {results.expression()}",
    ]
    return "\n".join([*lines, ""])


def parameter_names(names: list[str]) -> list[str]:
    """Names as parameters of TorchScript: unique identifiers that `forward_text` does not use."""
    reserved_names = {"self", "a", "r", "torch"}
    legal_names: list[str] = []
    for index, name in enumerate(names):
        is_legal = (
            name.isidentifier() and not keyword.iskeyword(name) and name not in reserved_names
        )
        legal_names.append(name if is_legal else f"input_{index}")
        reserved_names.add(legal_names[-1])
    return legal_names
