"""A kind of file as a frozen dataclass whose fields say what is legal in them.

    @dataclass(frozen=True, kw_only=True)
    class Price(Record):
        instance: str = declared(help="the instance", legal=names)
        usd: float = declared(help="its price", unit="USD/hour", exclusive_minimum=0, maximum=1e5)
        until: date | None = declared(None, help="the last day of it")

Legal annotations: str, int, float, bool, date, enumerations, `Literal`, unions, ``tuple[X, ...]``,
``dict[str, X]`` and dataclasses of these. A field of a class without `declared` is legal by its
annotation alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

_DAY: Final = "a day as 2026-11-21"
_RULE: Final = "rule"
_WORDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "yes, no, true, false",
    date: _DAY,
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The meaning of a field, and its legal values.

    Attributes:
        help: its meaning, a noun phrase.
        unit: the unit of a number; "" for none.
        exclusive_minimum: lower limit, not legal itself, of a number, or of the number of items of
            a list or a mapping.
        minimum: lower limit as above, legal itself.
        exclusive_maximum: upper limit as above, not legal itself.
        maximum: upper limit as above, legal itself.
        legal: the legal values of a text, a function that gives them, or words for what `parse`
            takes.
        parse: function from a text to its value; raises ValueError for a text that is not legal.
        each: the rule of each item of a list or a mapping.
        divider: text between the items of a list that is written as one text; None for spaces.
        alias: other names of the field.
        inside: names of the nested mappings that hold the field, outermost first.
        example: a legal value as a file writes it; "" for a field that an example leaves out.
    """

    help: str = ""
    unit: str = ""
    exclusive_minimum: float | None = None
    minimum: float | None = None
    exclusive_maximum: float | None = None
    maximum: float | None = None
    legal: str | Collection[str] | Callable[[], Collection[str]] | None = None
    parse: Callable[[str], Any] | None = None
    each: Rule | None = None
    divider: str | None = ";"
    alias: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    example: str = ""

    def allows(self, number: float) -> bool:
        """True if `number` lies within the limits; NaN lies in none."""
        return (
            (self.exclusive_minimum is None or number > self.exclusive_minimum)
            and (self.minimum is None or number >= self.minimum)
            and (self.exclusive_maximum is None or number < self.exclusive_maximum)
            and (self.maximum is None or number <= self.maximum)
        )

    @property
    def limits(self) -> str:
        """The limits in words: ``from 1 to 366``, ``above 0``; "" without limits."""
        if self.minimum is not None and self.maximum is not None:
            if self.minimum == self.maximum:
                return f"exactly {self.minimum:,.10g}"
            return f"from {self.minimum:,.10g} to {self.maximum:,.10g}"
        limits = (
            ("above {:,.10g}", self.exclusive_minimum),
            ("from {:,.10g} on", self.minimum),
            ("below {:,.10g}", self.exclusive_maximum),
            ("at most {:,.10g}", self.maximum),
        )
        return " and ".join(text.format(limit) for text, limit in limits if limit is not None)


ANY: Final = Rule()


def declared(default: Any = MISSING, **rule: Any) -> Any:
    """A field of a kind of file, with the attributes of a `Rule`; required without a default."""
    return field(default=default, metadata={_RULE: Rule(**rule)})


class DeclaredField(NamedTuple):
    """A field of a kind of file.

    Attributes:
        names: its name and its aliases.
        rule: its rule; `ANY` for a field without `declared`.
        default: MISSING where a file must state it.
    """

    names: tuple[str, ...]
    hint: Any
    rule: Rule
    default: Any

    @property
    def is_optional(self) -> bool:
        """True if a file may leave it out."""
        return self.default is not MISSING

    @property
    def legal(self) -> str:
        """Its legal values, in words."""
        return legal_text(self.hint, self.rule)


def between(help_: str, minimum: float, maximum: float, default: Any = MISSING, **rule: Any) -> Any:
    """A field with a number, or a number of items, from `minimum` to `maximum`."""
    return declared(default, help=help_, minimum=minimum, maximum=maximum, **rule)


def fields_of(kind: type[Any]) -> Mapping[str, DeclaredField]:
    """The fields of a dataclass, by name."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        _FIELDS[kind] = {
            field.name: _declared_field(field, hints[field.name]) for field in fields(kind)
        }
    return _FIELDS[kind]


def names_of(kind: type[Any]) -> Mapping[str, str]:
    """Name or alias -> the field of a dataclass that it names."""
    if kind not in _NAMES:
        declarations = fields_of(kind).items()
        _NAMES[kind] = {name: field for field, declared in declarations for name in declared.names}
    return _NAMES[kind]


_FIELDS: Final[dict[type[Any], Mapping[str, DeclaredField]]] = {}
_NAMES: Final[dict[type[Any], Mapping[str, str]]] = {}


def _declared_field(declaration: Field[Any], hint: Any) -> DeclaredField:
    rule: Rule = declaration.metadata.get(_RULE, ANY)
    default = declaration.default
    if declaration.default_factory is not MISSING:
        default = declaration.default_factory()
    return DeclaredField((declaration.name, *rule.alias), hint, rule, default)


def is_record(hint: Any) -> bool:
    """True if the type is a dataclass."""
    return isinstance(hint, type) and is_dataclass(hint)


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union without None; the type itself for any other type."""
    if get_origin(hint) not in (Union, types.UnionType):
        return (hint,)
    return tuple(member for member in get_args(hint) if member is not types.NoneType)


def choices(hint: Any, rule: Rule) -> dict[str, Any] | None:
    """The legal values by their text; None if no finite list declares them."""
    if get_origin(hint) is Literal:
        return {str(value): value for value in get_args(hint)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {str(member.value): member for member in hint}
    if rule.legal is None or isinstance(rule.legal, str):
        return None
    legal = rule.legal() if callable(rule.legal) else rule.legal
    return {name: name for name in legal}


def legal_text(hint: Any, rule: Rule) -> str:
    """The legal values in words: ``a whole number from 1 to 366 [days]``."""
    unit = f" [{rule.unit}]" if rule.unit else ""
    if isinstance(rule.legal, str):
        return rule.legal + unit
    return " or ".join(_words(member, rule) for member in members(hint)) + unit


def _words(hint: Any, rule: Rule) -> str:
    values_by_name = choices(hint, rule)
    if values_by_name is not None:
        return ", ".join(values_by_name)
    limits = f" {rule.limits}" if rule.limits else ""
    inner = get_args(hint)
    if get_origin(hint) is dict:
        return f"a mapping of names to {legal_text(inner[1], rule.each or ANY)}"
    if get_origin(hint) is tuple:
        count = f" of{limits}" if limits else ""
        between = "spaces" if rule.divider is None else f"{rule.divider!r}"
        apart = "" if is_record(inner[0]) else f", in one text with {between} between"
        return f"a list{count}{apart}: {legal_text(inner[0], rule.each or ANY)}"
    if is_record(hint):
        return f"a mapping of fields: {', '.join(fields_of(hint))}"
    return _WORDS[hint] + limits
