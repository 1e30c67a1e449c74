"""Fields and their types as a service or a cluster describes them, and documents' faults.

``jobs/fields`` has the fields of each format with their types, from the descriptions that AWS,
Kubernetes and ParallelCluster publish. A service refuses a field that is not among them; here it is
a finding, as a newer version of the service may have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, reduce
from importlib import resources
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.job import KeptField
from trnsim.jobs.spec import is_template
from trnsim.reader import SourcePlace

_LEAST_SIMILARITY: Final = 0.75
"""Minimum similarity (difflib) of a misspelled name to a legal name that is suggested."""
_SHOWN_NAMES: Final = 12
_SHOWN_CHARS: Final = 60
_FUNCTION: Final = "Fn::"
_SPELLED_PREFIX: Final = "spelled-"
"""Prefix of a type whose values text may spell."""
_NUMBER_TEXT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_VALUE_LIST: Final = "="
"""Prefix of a type that lists its values, with | between them."""


@dataclass(frozen=True)
class FieldTable:
    """The described fields of a format's documents.

    Attributes:
        source: document that describes the fields.
        shapes: types of the fields of each shape, by their names; "=a|b" lists values.
        required: by shape, the fields that it must have; "a|b" for either a or b.
        is_lenient: whether numbers and truth values may be text, and names may differ in capitals,
            as in a template of CloudFormation.
    """

    source: str
    shapes: dict[str, dict[str, str]] = field(repr=False)
    required: dict[str, list[str]] = field(default_factory=dict, repr=False)
    is_lenient: bool = False

    def faults(self, value: Any, kind: str) -> Iterator[FieldFault]:
        """The faults of a value that must be of type `kind`, in the order of the document."""
        yield from self._faults(value, kind, ())

    def placed_faults(
        self, place: SourcePlace, kind: str, document: str = "document"
    ) -> Iterator[tuple[FieldFault, SourceLine]]:
        """The faults of a value of type `kind` in a file, each with its line."""
        for fault in self.faults(place.value, kind):
            line = reduce(SourcePlace.inner, fault.keys, place).line
            yield fault._replace(source=self.source, document=document), line

    def _faults(self, value: Any, kind: str, keys: tuple[str | int, ...]) -> Iterator[FieldFault]:
        if value is None or kind == "any" or (isinstance(value, str) and is_template(value)):
            return
        item_kind = kind[1:-1]
        if kind[0] == "[" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._faults(item, item_kind, (*keys, index))
        elif kind[0] == "{" and isinstance(value, dict):
            for name, item in value.items():
                yield from self._faults(item, item_kind, (*keys, name))
        elif kind in self.shapes and isinstance(value, dict):
            yield from self._fields(value, kind, keys)
        elif kind[0] == _VALUE_LIST and isinstance(value, str):
            yield from self._values(value, kind[1:].split("|"), keys)
        elif not self._is_scalar(value, kind):
            yield self._type_fault(value, kind, keys)

    def _fields(
        self, value: dict[Any, Any], kind: str, keys: tuple[str | int, ...]
    ) -> Iterator[FieldFault]:
        legal = self.shapes[kind]
        names_by_folded = {name.casefold(): name for name in legal}
        stated_names = {name for name in value if value[name] is not None}
        is_templated = False
        for name, item in value.items():
            if not isinstance(name, str) or is_template(name) or name.startswith(_FUNCTION):
                is_templated = True
                continue
            namesake = names_by_folded.get(name.casefold(), "")
            legal_name = name if name in legal else namesake if self.is_lenient else ""
            if legal_name:
                stated_names.update([legal_name] if item is not None else [])
                yield from self._faults(item, legal[legal_name], (*keys, name))
                continue
            near_names = (
                [namesake]
                if namesake
                else get_close_matches(name[:100], legal, 1, _LEAST_SIMILARITY)
            )
            stated_names.update(near_names)
            yield self._name_fault((*keys, name), near_names, legal, value)
        for names in () if is_templated else self.required.get(kind, ()):
            if not stated_names.intersection(names.split("|")):
                yield self._missing_fault(names.split("|"), legal, keys)

    def _values(
        self, value: str, legal: list[str], keys: tuple[str | int, ...]
    ) -> Iterator[FieldFault]:
        names_by_folded = {legal_name.casefold(): legal_name for legal_name in legal}
        namesake = names_by_folded.get(value.casefold(), "")
        if value in legal or (namesake and self.is_lenient):
            return
        near_names = (
            [namesake] if namesake else get_close_matches(value[:100], legal, 1, _LEAST_SIMILARITY)
        )
        near_names = [
            legal_name for legal_name in near_names if _digits(legal_name) == _digits(value)
        ]
        name = KeptField(keys, None).name
        reason = f'{name} is "{_shortened_text(value)}"; legal: {", ".join(filter(None, legal))}'
        if near_names:
            yield FieldFault(keys, "misspelled-value", reason, f"perhaps {near_names[0]}")
        else:
            yield FieldFault(keys, "unknown-value", reason, "write a legal one")

    def _name_fault(
        self,
        keys: tuple[str | int, ...],
        near_names: list[str],
        legal: dict[str, str],
        siblings: dict[str, Any],
    ) -> FieldFault:
        name = KeptField(keys, None).name
        container = KeptField(keys[:-1], None).name or "the document"
        names = [
            legal_name for legal_name in sorted(legal) if legal_name not in siblings
        ] or sorted(legal)
        hidden_count = len(names) - _SHOWN_NAMES
        shown_names = ", ".join(names[:_SHOWN_NAMES]) + (
            f" and {hidden_count} more" if hidden_count > 0 else ""
        )
        reason = f"{name} is no field of {container}"
        if near_names:
            duplicate = ", which is stated too" if near_names[0] in siblings else ""
            return FieldFault(
                keys, "misspelled-field", reason, f"perhaps {near_names[0]}{duplicate}"
            )
        return FieldFault(keys, "unknown-field", reason, f"take it out; legal there: {shown_names}")

    def _missing_fault(
        self, names: list[str], legal: dict[str, str], keys: tuple[str | int, ...]
    ) -> FieldFault:
        """The fault of an object without a required field, or without one of several."""
        container = KeptField(keys, None).name or "the document"
        lacks = f"neither {' nor '.join(names)}" if names[1:] else f"no {names[0]}"
        reason = f"{container} has {lacks}, which is required"
        fix = f"add {names[0]}: {self._type_text(legal[names[0]])}"
        return FieldFault((*keys, names[0]), "missing-field", reason, fix)

    def _type_fault(self, value: Any, kind: str, keys: tuple[str | int, ...]) -> FieldFault:
        name = KeptField(keys, None).name or "the document"
        value_text = _shortened_text(json.dumps(value, ensure_ascii=False, default=str))
        words = self._type_text(kind)
        fix = f"write {words}"
        if kind == "string" and not isinstance(value, dict | list):
            fix = f'write it as text: "{value_text}"'
        return FieldFault(keys, "field-type", f"{name} is {value_text}; legal: {words}", fix)

    def _type_text(self, kind: str) -> str:
        if kind[0] == "[":
            return f"a list, each item {self._type_text(kind[1:-1])}"
        if kind[0] == "{" or kind in self.shapes:
            return "a mapping"
        if kind[0] == _VALUE_LIST:
            return ", ".join(filter(None, kind[1:].split("|")))
        return _WORDS[kind.removeprefix(_SPELLED_PREFIX)]

    def _is_scalar(self, value: Any, kind: str) -> bool:
        plain_kind = kind.removeprefix(_SPELLED_PREFIX)
        if plain_kind not in _CHECKS:
            return False
        if self.is_lenient and plain_kind in ("string", "quantity"):
            return not isinstance(value, dict | list)
        is_spelled = (self.is_lenient or plain_kind != kind) and _is_spelled(value, plain_kind)
        return is_spelled or _CHECKS[plain_kind](value)


def _shortened_text(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _digits(text: str) -> str:
    """The digits of a value; values that differ in them are versions, not misspellings."""
    return "".join(filter(str.isdigit, text))


def _is_spelled(value: Any, kind: str) -> bool:
    """True if a text spells a number or a truth value."""
    if not isinstance(value, str):
        return False
    if kind == "boolean":
        return value.lower() in ("true", "false")
    if _NUMBER_TEXT.fullmatch(value) is None:
        return False
    return kind == "number" or float(value).is_integer()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: not isinstance(value, bool | int | float | list | dict),
    "integer": lambda value: _is_number(value) and value % 1 == 0,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "quantity": lambda value: isinstance(value, str) or _is_number(value),
}
_WORDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "text or a number",
    "any": "any value",
}


@cache
def field_table(name: str, *, is_lenient: bool = False) -> FieldTable:
    """The described fields of ``jobs/fields/NAME.json``."""
    text = (resources.files("trnsim.jobs") / "fields" / f"{name}.json").read_text(encoding="utf-8")
    content = json.loads(text)
    return FieldTable(content["source"], content["shapes"], content["required"], is_lenient)
