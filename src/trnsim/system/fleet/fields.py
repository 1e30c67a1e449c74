"""The fields of a YAML mapping, asked for by name and range; errors name file, line and field."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from trnsim.errors import BadInput, SourceLine
from trnsim.formatting import parse_number, parse_whole
from trnsim.yaml_file import Value

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Fields:
    """A mapping whose keys are names of fields.

    Attributes:
        values: by field.
        line: where the mapping starts.
        path: the field that holds it, as ``services.chat``; "" for a whole file.
    """

    values: dict[str, Value]
    line: SourceLine
    path: str

    @classmethod
    def of(cls, value: Value, path: str, legal: Collection[str] | None = None) -> Fields:
        """The mapping `value`, whose keys must be among `legal` where that is given.

        Raises:
            BadInput: it is no mapping, is empty, or has another key.
        """
        content = value.content
        if not isinstance(content, dict) or not content:
            names = f": {', '.join(legal)}" if legal else ""
            raise refused(value.line, path or "the file", f"legal: a mapping of fields{names}")
        for name, one in content.items():
            if legal is not None and name not in legal:
                near = get_close_matches(name, legal, 1)
                raise refused(
                    one.line,
                    f"{path}.{name}" if path else name,
                    f"not known; legal: {', '.join(legal)}",
                    f"perhaps {near[0]!r}" if near else "",
                )
        return cls(content, value.line, path)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def at(self, name: str) -> str:
        """The whole name of a field."""
        return f"{self.path}.{name}" if self.path else name

    def refused(self, name: str, why: str, fix: str = "") -> BadInput:
        """The error that the field `name` is `why`."""
        if name not in self.values:
            return refused(self.line, self.at(name), f"missing; {why}", fix)
        value = self.values[name]
        given = f" is {value.content!r}" if isinstance(value.content, str) else ""
        return refused(value.line, self.at(name) + given, why, fix)

    def value(self, name: str) -> Value:
        """A field that must be there.

        Raises:
            BadInput: it is missing.
        """
        if name not in self.values:
            raise self.refused(name, "this field is required")
        return self.values[name]

    def mapping(self, name: str, legal: Collection[str] | None = None) -> Fields:
        """The fields of the mapping that the field `name` holds.

        Raises:
            BadInput: it is missing, no mapping, empty, or has another key.
        """
        return Fields.of(self.value(name), self.at(name), legal)

    def text(self, name: str, default: str | None = None) -> str:
        """A text.

        Raises:
            BadInput: it is empty, or no single text.
        """
        if name not in self.values and default is not None:
            return default
        content = self.value(name).content
        if not isinstance(content, str) or not content:
            raise self.refused(name, "legal: a text")
        return content

    def one_of(self, name: str, legal: Sequence[str], default: str | None = None) -> str:
        """A text among `legal`.

        Raises:
            BadInput: it is another.
        """
        given = self.text(name, default)
        if given not in legal:
            raise self.refused(name, f"legal: {', '.join(legal)}")
        return given

    def number(
        self, name: str, *, least: float, most: float = math.inf, default: float | None = None
    ) -> float:
        """A finite number in ``[least, most]``.

        Raises:
            BadInput: it is no number, or lies outside.
        """
        if name not in self.values and default is not None:
            return default
        return self._parsed(name, self.text(name), parse_number, (least, most))

    def whole(
        self, name: str, *, least: int, most: float = math.inf, default: int | None = None
    ) -> int:
        """A whole number in ``[least, most]``.

        Raises:
            BadInput: it is no whole number, or lies outside.
        """
        if name not in self.values and default is not None:
            return default
        return self._parsed(name, self.text(name), parse_whole, (least, most))

    def numbers(self, name: str, count: int, *, least: float, most: float) -> tuple[float, ...]:
        """A list of `count` finite numbers in ``[least, most]``.

        Raises:
            BadInput: it is another list, or one of them is no such number.
        """
        content = self.value(name).content
        if not isinstance(content, tuple) or len(content) != count:
            raise self.refused(name, f"legal: a list of {count} numbers")
        found: list[float] = []
        for at, one in enumerate(content):
            alone = Fields({f"{name}[{at}]": one}, self.line, self.path)
            found.append(alone.number(f"{name}[{at}]", least=least, most=most))
        return tuple(found)

    def _parsed(
        self, name: str, given: str, parse: Callable[[str], _Number], legal: tuple[float, float]
    ) -> _Number:
        least, most = legal
        try:
            number = parse(given)
        except ValueError as error:
            raise self.refused(name, str(error).removeprefix(f"{given!r} ")) from None
        if not (least <= number <= most and math.isfinite(number)):
            until = f" to {most:,.10g}" if math.isfinite(most) else " on, and finite"
            raise self.refused(name, f"legal: from {least:,.10g}{until}")
        return number


def refused(line: SourceLine, field: str, why: str, fix: str = "") -> BadInput:
    """The error that `field`, which stands in `line`, is `why`."""
    return BadInput(f"{line}: {field}: {why}", fix=fix, line=line)
