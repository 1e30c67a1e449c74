"""Access to the keys of a ``config.json``, with errors that name the key and the legal values."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar, cast

from trnsim.errors import BadInput, SourceLine
from trnsim.formatting import clipped
from trnsim.reader import line_in

Rule = bool | tuple[str, bool]
"""Presence of a feature: always, never, or by a boolean key with its default."""

_T = TypeVar("_T")
_LARGEST_INTEGER: Final = 2**40
"""The largest whole number that a configuration may state."""
_SHOWN_CHARS: Final = 60
"""Characters of a value in an error."""


class ConfigGap(BadInput):
    """A configuration that no formula covers; transformers may know it.

    It leaves a key out, has a value that is not known here, or names code of its own.
    """


class ConfigKeys:
    """A configuration, and the file that errors name.

    Attributes:
        inside: the key under which a nested configuration lies, with a dot.
    """

    def __init__(self, config: Mapping[str, Any], file: str, inside: str = "") -> None:
        self.config = config
        self.file = file
        self.inside = inside

    def whole(
        self,
        *names: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = _LARGEST_INTEGER,
    ) -> int:
        """The whole number under the first of `names` that is present.

        Raises:
            BadInput: no key is present and there is no default; the value is no whole number from
                `minimum` to `maximum`.
        """
        name = self.first(names)
        if name is None:
            if default is not None:
                return default
            raise self._missing(names[0], "<whole number>")
        value = self.config[name]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not minimum <= value <= maximum:
            legal = (
                "a positive whole number" if minimum == 1 else f"a whole number from {minimum} on"
            )
            legal += f", at most {maximum:,}" if is_whole and value > maximum else ""
            raise self._error(
                name,
                f"{self.inside}{name} is {clipped(repr(value), _SHOWN_CHARS)}, it must be {legal}",
                f'write "{name}": <whole number> in {self.file}',
            )
        return int(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True if the key `name` is true.

        Raises:
            BadInput: it is neither true nor false.
        """
        value = self.config.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, value, "true, false", "it is a choice")
        return value

    def has_feature(self, rule: Rule) -> bool:
        """True if the feature of a rule is present."""
        return rule if isinstance(rule, bool) else self.flag(rule[0], default=rule[1])

    def text(self, name: str, default: str = "") -> str:
        """The text under `name`.

        Raises:
            BadInput: it is no text.
        """
        value = self.config.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.refuse(name, value, "text", "it is a name")
        return value

    def items(self, name: str, kind: type[_T], legal: str) -> list[_T]:
        """The list under `name`, all of one type; empty if absent.

        Raises:
            BadInput: it is no such list.
        """
        value = self.config.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(name, value, f"a list of {legal}", "it is a list")
        elements: list[Any] = value
        for element in elements:
            if not isinstance(element, kind) or isinstance(element, bool):
                raise self.refuse(name, element, f"a list of {legal}", "it is a list of these")
        return elements

    def filled(self, defaults: Mapping[str, Any]) -> ConfigKeys:
        """The configuration with `defaults` for keys that are absent or null."""
        values = {key: value for key, value in self.config.items() if value is not None}
        return ConfigKeys({**defaults, **values}, self.file, self.inside)

    def indexes(self, name: str, depth: int) -> list[int]:
        """The different indexes of layers under `name`, of `depth` layers; empty if absent.

        Raises:
            BadInput: it is no such list.
        """
        indexes: list[int] = self.items(name, int, "indexes of layers")
        for index in indexes:
            if not 0 <= index < depth or indexes.count(index) > 1:
                legal = f"different indexes from 0 to {depth - 1}"
                raise self.refuse(name, index, legal, "each is a layer")
        return indexes

    def nested(self, name: str) -> ConfigKeys:
        """The configuration under `name`.

        Raises:
            BadInput: there is none.
        """
        value = self.config.get(name)
        if value is None:
            raise self._missing(name, "{...}")
        if not isinstance(value, Mapping):
            raise self.refuse(name, value, "an object", "it holds a configuration")
        values = cast("Mapping[str, Any]", value)
        return ConfigKeys(values, self.file, f"{self.inside}{name}.")

    def labels(self) -> int:
        """Number of classes of a classifier; 2 by default.

        Raises:
            BadInput: ``id2label`` is no object.
        """
        if self.config.get("id2label") is not None:
            return max(1, len(self.nested("id2label").config))
        return self.whole("num_labels", default=2)

    def refuse(self, name: str, value: object, legal: str, why: str) -> BadInput:
        """The error that the caller raises for a key with an illegal value."""
        return self._error(name, *self._refusal(name, value, legal, why))

    def unknown(self, name: str, value: object, legal: str, why: str) -> ConfigGap:
        """The error that the caller raises for a value that may be legal but no formula covers."""
        return self._gap(name, *self._refusal(name, value, legal, why))

    def _refusal(self, name: str, value: object, legal: str, why: str) -> tuple[str, str]:
        """The reason and the fix for a key with a value that is not legal."""
        value_text = clipped(repr(value), _SHOWN_CHARS)
        reason = f"{self.inside}{name} is {value_text}; legal: {legal}: {why}"
        return reason, f"correct {name} in {self.file}"

    def line(self, name: str) -> SourceLine | None:
        """The line of a key in its file, or of the object that lacks it; None without a file."""
        return line_in(self.file, (*filter(None, self.inside.split(".")), name))

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of `names` whose key is present and not null; None without any."""
        return next((name for name in names if self.config.get(name) is not None), None)

    def _missing(self, name: str, value: str) -> ConfigGap:
        names_text = ", ".join(sorted(map(str, self.config))) or "none"
        place = f" of {self.inside.rstrip('.')}" if self.inside else ""
        state = "null" if name in self.config else "missing"
        similar_names = get_close_matches(name, set(map(str, self.config)) - {name}, 1)
        return self._gap(
            name,
            f"key {self.inside + name!r} is {state}; keys found{place}: {names_text}",
            f'add "{name}": {value} to {self.file}'
            + (f"; perhaps {similar_names[0]!r} is meant to be it" if similar_names else ""),
        )

    def _error(self, name: str, why: str, fix: str) -> BadInput:
        line = self.line(name)
        return BadInput(f"{line or self.file}: {why}", fix=fix, line=line)

    def _gap(self, name: str, why: str, fix: str) -> ConfigGap:
        line = self.line(name)
        return ConfigGap(f"{line or self.file}: {why}", fix=fix, line=line)
