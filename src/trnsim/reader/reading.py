"""Records read from files: dataclasses whose fields are declared, each value checked.

Errors are `BadInput`. They name the file, the line, the field, what was given and what is legal.
For an unknown name they suggest legal names that are spelled alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass, replace
from datetime import date
from difflib import get_close_matches
from functools import partial, reduce
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, get_args, get_origin

from trnsim import quantities
from trnsim.errors import BadInput, SourceLine
from trnsim.reader.declaration import (
    ANY,
    DeclaredField,
    Rule,
    choices,
    fields_of,
    is_record,
    legal_text,
    members,
    names_of,
)
from trnsim.reader.document import FileContent, SourcePlace, load
from trnsim.reader.parsed import ParsedText

_BOOLEANS: Final = {"yes": True, "no": False, "true": True, "false": False}
_MOST_SUGGESTIONS: Final = 3
"""Maximum number of names that an error suggests for an unknown name."""
_MOST_DIGITS: Final = 20
"""Number of digits from which a name of a mapping is not read as a whole number."""
_NOT_FINITE: Final = ("nan", "inf", "infinity")
_UNIT: Final = re.compile(r"[a-zµμ%]$", re.IGNORECASE)
"""The last character of a number with a unit, which a person wrote, and no program."""
_T = TypeVar("_T")


class FileRecord:
    """Base class of dataclasses that are read from a file; each knows its place in the file.

    ``name in record`` is True if the file states the field.
    """

    _place: SourcePlace

    def __contains__(self, field: str) -> bool:
        return self._name_of(field) is not None

    @property
    def line(self) -> SourceLine:
        """File and line at which the mapping begins."""
        return self._place.line

    def refused(self, field: str, why: str, fix: str = "", *, item: str = "") -> BadInput:
        """The error of a field or an item of it, to be raised.

        Args:
            field: the field.
            why: what is wrong with the value; or what is legal, if it begins with ``legal:``.
            fix: what the user can do.
            item: name of an item of the field; "" for the field itself.
        """
        place = self._place.inner(self._name_of(field) or field)
        return (place.inner(item) if item else place).refused(why, fix)

    def record_error(self, why: str, fix: str = "") -> BadInput:
        """The error of the record as a whole, to be raised; `why` says what is wrong with it."""
        return self._place.document.refused(self.line.line, why, fix)

    def choice(self, field: str, legal: Collection[str]) -> str:
        """The text of a field that must be one of the `legal` names.

        Raises:
            BadInput: it is missing, or another text.
        """
        values_by_name = {name: name for name in legal}
        return str(_value_named(values_by_name, self._place.inner(self._name_of(field) or field)))

    def converted(self, kind: type[_T], values: Mapping[str, Any], *without: str) -> _T:
        """A record of another kind at the same place of the file.

        Args:
            kind: its kind.
            values: fields that are added, or that replace fields of this record.
            without: fields of this record that the new record lacks.
        """
        fields = {name: value for name, value in self._place.value.items() if name not in without}
        return record(kind, self._place._replace(value={**fields, **values}))

    def _name_of(self, field: str) -> str | None:
        """The name or alias under which the file states a field; None if it does not."""
        return next(iter(_stated_names(fields_of(type(self))[field], self._place.value)), None)


class ForeignRecord(FileRecord):
    """A record that another program wrote: fields that are not declared are ignored.

    Attributes:
        has_text_numbers: True if the program writes numbers as text, as in CSV. Elsewhere a number
            field must be a number: a text such as "20 s" was edited by hand.
    """

    has_text_numbers: ClassVar[bool] = False


def read(kind: type[_T], path: Path | str, fix: str = "") -> _T:
    """The `kind` that the file at `path` holds.

    Raises:
        BadInput: the file cannot be read, or a field is unknown, missing or not legal.
    """
    return record(kind, load(path, fix).root)


def read_rows(kind: type[_T], path: Path | str, fix: str = "") -> list[_T]:
    """The rows of the table at `path`, CSV, YAML, JSON, JSON lines or TOML.

    Raises:
        BadInput: the file cannot be read, or a field is unknown, missing or not legal.
    """
    return rows(kind, load(path, fix, is_table=True))


def rows(kind: type[_T], document: FileContent) -> list[_T]:
    """The rows of a document.

    Raises:
        BadInput: it holds no list, or a field is unknown, missing or not legal.
    """
    content = document.parsed.content
    if isinstance(content, dict) and len(content) == 1:  # in TOML a list always has a name
        ((name, content),) = content.items()
        line_of = document.parsed.line_of
        list_text = ParsedText(content, lambda keys: line_of((name, *keys)))
        document = replace(document, parsed=list_text)
    if not isinstance(content, list):
        why = "no list; write one row as '- field: value', its fields below it"
        raise document.refused(1, why)
    if document.parsed.columns is not None:
        _check_columns(kind, document, document.parsed.columns)
    return [record(kind, document.root.inner(index)) for index in range(len(content))]


def _check_columns(kind: type[Any], document: FileContent, columns: tuple[str, ...]) -> None:
    """Refuse the first line of a CSV file that has an unknown name, or lacks a required name."""
    _check_names(kind, SourcePlace(document, (), dict.fromkeys(columns)))
    for name, declaration in fields_of(kind).items():
        if not declaration.is_optional and not set(declaration.names) & set(columns):
            why = f"the field {name!r} is missing; legal: {declaration.legal}"
            raise document.refused(1, why)


def record(kind: type[_T], place: SourcePlace) -> _T:
    """The dataclass `kind` of the mapping at `place`.

    Raises:
        BadInput: it is no mapping, or a field is unknown, missing or not legal.
    """
    if not isinstance(place.value, dict):
        raise place.refused(f"legal: {legal_text(kind, ANY)}")
    _check_names(kind, place)
    values: dict[str, Any] = {}
    for name, declaration in fields_of(kind).items():
        holder = reduce(SourcePlace.inner, declaration.rule.inside, place)
        inner = holder.value if isinstance(holder.value, dict) else {}
        names = _stated_names(declaration, inner)
        if len(names) > 1:
            raise holder.inner(names[1]).refused(f"another name of {names[0]}, given too")
        if names:
            inner_place = holder.inner(names[0])
            if issubclass(kind, ForeignRecord):
                _check_foreign_number(kind, declaration, inner_place)
            values[name] = _value(declaration.hint, declaration.rule, inner_place)
        elif type(None) in get_args(declaration.hint) and name in inner:
            values[name] = None
        elif not declaration.is_optional:
            missing = SourcePlace(place.document, (*holder.keys, declaration.names[-1]), None)
            raise missing.field_error(f" is missing; legal: {declaration.legal}")
    instance = kind(**values)
    if isinstance(instance, FileRecord):
        object.__setattr__(instance, "_place", place)
    return instance


def _check_foreign_number(
    kind: type[ForeignRecord], declaration: DeclaredField, place: SourcePlace
) -> None:
    """Refuse a text in a number field, which a person edited.

    If the program writes numbers as text, only a text with a unit is refused.
    """
    is_number = not {int, float}.isdisjoint(members(declaration.hint))
    if not is_number or declaration.rule.parse is not None or not isinstance(place.value, str):
        return
    if not kind.has_text_numbers or _UNIT.search(place.value.strip()):
        raise _illegal(declaration.rule, declaration.hint, place)


def _check_names(kind: type[Any], place: SourcePlace) -> None:
    """Refuse a field that is not declared."""
    legal = names_of(kind)
    if place.value.keys() <= legal.keys() or issubclass(kind, ForeignRecord):
        return
    name = next(name for name in place.value if name not in legal)
    inner = place.inner(name)
    why = f"the field {inner.name!r} is not known; legal: {', '.join(legal)}"
    raise place.document.refused(inner.line.line, why, _similar_names(name, list(legal), 1))


def _stated_names(declaration: DeclaredField, values: Mapping[str, Any]) -> list[str]:
    """The names and aliases of a field that have a value in a mapping."""
    empty = (None,) if declaration.rule is ANY else (None, "")
    return [name for name in declaration.names if values.get(name) not in empty]


def _value(hint: Any, rule: Rule, place: SourcePlace) -> Any:
    """The value at `place` as the type `hint`.

    Raises:
        BadInput: it is not legal.
    """
    if hint in _SCALARS and rule.parse is None and rule.legal is None:
        return _SCALARS[hint](rule, hint, place)
    if place.value is None and type(None) in get_args(hint):
        return None
    return _value_of_member(_member(hint, place.value), rule, place)


def _value_of_member(hint: Any, rule: Rule, place: SourcePlace) -> Any:
    if rule.parse is not None:
        return _parse_value(rule, hint, place)
    if get_origin(hint) in (tuple, dict):
        return _items_of(hint, rule, place)
    if is_record(hint):
        return record(hint, place)
    values_by_name = choices(hint, rule)
    if values_by_name is not None:
        return _value_named(values_by_name, place)
    return _SCALARS[hint](rule, hint, place)


def _member(hint: Any, value: Any) -> Any:
    """The member of a union for a value: by type if it is a bool or number, else by shape."""
    member_hints = members(hint)
    if type(value) in (bool, int, float) and type(value) in member_hints:
        return type(value)
    shape = _SHAPES.get(type(value))
    return next((member for member in member_hints if _shape(member) is shape), member_hints[0])


_SHAPES: Final[Mapping[type[Any], Any]] = {dict: dict, list: tuple}


def _shape(hint: Any) -> Any:
    """The shape of a type's values: dict, tuple, or None for a single value."""
    origin = dict if is_dataclass(hint) else get_origin(hint)
    return origin if origin in (dict, tuple) else None


def _items_of(hint: Any, rule: Rule, place: SourcePlace) -> Any:
    inner, item_rule = get_args(hint), rule.each or ANY
    content = place.value
    values: Any
    if get_origin(hint) is dict:
        if not isinstance(content, dict):
            raise place.refused(f"legal: {legal_text(hint, rule)}")
        values = {
            _key(inner[0], place.inner(name), name): _value(inner[1], item_rule, place.inner(name))
            for name in content
        }
    else:
        if isinstance(content, str):
            parts = [part.strip() for part in content.split(rule.divider)]
            place = place._replace(value=[part for part in parts if part])
        elif not isinstance(content, list):
            raise place.refused(f"legal: {legal_text(hint, rule)}")
        items = (place.inner(index) for index in range(len(place.value)))
        values = tuple(_value(inner[0], item_rule, item) for item in items)
    if not rule.allows(len(values)):
        raise place.refused(f"{len(values)} items; legal: {legal_text(hint, rule)}")
    return values


def _key(hint: Any, place: SourcePlace, name: str) -> str | int:
    """A name of a mapping as the type `hint`: the text, or its whole number for int.

    Raises:
        BadInput: it is no whole number.
    """
    if hint is not int:
        return name
    is_number = name.isascii() and name.isdecimal() and len(name) < _MOST_DIGITS
    if not is_number or name != str(int(name)):  # 1 and 01 would be one name
        raise place.field_error(": legal names: whole numbers from 0 on, without leading zeros")
    return int(name)


def _parse_value(rule: Rule, hint: Any, place: SourcePlace) -> Any:
    if not isinstance(place.value, str) or rule.parse is None:
        raise _illegal(rule, hint, place)
    try:
        return rule.parse(place.value)
    except (ValueError, OverflowError) as error:
        reason = str(error) if str(error).startswith("legal: ") else ""
        raise place.refused(reason or f"legal: {legal_text(hint, rule)}", _example(rule)) from None


def _value_named(values_by_name: dict[str, Any], place: SourcePlace) -> Any:
    key = str(place.value)
    if key in values_by_name and not isinstance(place.value, bool | list | dict):
        return values_by_name[key]
    raise place.refused(
        f"legal: {', '.join(values_by_name)}",
        _similar_names(key, list(values_by_name), _MOST_SUGGESTIONS),
    )


def _similar_names(name: str, legal: list[str], max_count: int) -> str:
    similar_names = get_close_matches(name[:100], legal, max_count)
    return f"perhaps {' or '.join(map(repr, similar_names))}" if similar_names else ""


def _text(rule: Rule, hint: Any, place: SourcePlace) -> str:
    if not isinstance(place.value, str):
        raise _illegal(rule, hint, place)
    return place.value


def _number(rule: Rule, hint: Any, place: SourcePlace) -> float:
    content = place.value
    if isinstance(content, str):
        has_fractions = bool(place.keys) and place.keys[-1] in place.document.parsed.fractions
        content = _number_in_text(
            partial(quantities.number, has_fractions=has_fractions), rule, place
        )
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise _illegal(rule, hint, place)
    try:
        value = float(content)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and rule.allows(value)):
        raise _illegal(rule, hint, place)
    return value


def _whole_number(rule: Rule, hint: Any, place: SourcePlace) -> int:
    content = place.value
    value: Any = (
        _number_in_text(quantities.whole, rule, place) if isinstance(content, str) else content
    )
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not rule.allows(value):
        raise _illegal(rule, hint, place)
    return value


def _number_in_text(parse: Any, rule: Rule, place: SourcePlace) -> Any:
    """The number that a text states, in the unit of its field."""
    if place.value.strip().lstrip("+-").casefold() in _NOT_FINITE:
        return math.nan  # which no rule allows
    try:
        return parse(place.value, rule.unit)
    except ValueError as error:
        reason = str(error).removeprefix(f"{place.value!r} ").removeprefix("is ")
        raise place.refused(reason) from None


def _boolean(rule: Rule, hint: Any, place: SourcePlace) -> bool:
    if isinstance(place.value, bool):
        return place.value
    if place.value not in tuple(_BOOLEANS):
        raise _illegal(rule, hint, place)
    return _BOOLEANS[place.value]


def _day(rule: Rule, hint: Any, place: SourcePlace) -> date:
    text = place.value
    if isinstance(text, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise _illegal(rule, hint, place)


def _illegal(rule: Rule, hint: Any, place: SourcePlace) -> BadInput:
    return place.refused(f"legal: {legal_text(hint, rule)}", _example(rule))


def _example(rule: Rule) -> str:
    """The fix of an illegal value: the declared example, or "" for the file's own fix."""
    return f"for example {rule.example}" if rule.example else ""


_SCALARS: Final = {str: _text, float: _number, int: _whole_number, bool: _boolean, date: _day}
