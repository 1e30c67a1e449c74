"""Enumerations of NKI, whose error for a missing member lists the members."""

from __future__ import annotations

from enum import Enum, EnumType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from trnsim.absence import NoAttribute, refuse_attribute


class NoMember(NoAttribute, KeyError, ValueError):
    """Error of a member that an enumeration lacks.

    It is also what Python raises for `E.name`, `E["name"]` and `E(value)`.
    """


class EnumerationType(EnumType):
    """The metaclass of `Enumeration`, which looks its members up."""

    if not TYPE_CHECKING:  # type checkers know the members

        def __getattr__(cls, name: str) -> Any:
            if name.startswith("_"):  # asked while the class is made
                raise AttributeError(name)
            members = cls.__members__  # in Python 3.11 they are no attributes
            return members[name] if name in members else cls.refuse_member(name, f".{name}")

        def __getitem__(cls, name: str) -> Any:
            members = cls.__members__
            return members[name] if name in members else cls.refuse_member(name, f"[{name!r}]")

        def __call__(cls, *values: Any, **options: Any) -> Any:
            """The member of a value."""
            if len(values) != 1 or options:
                keywords = [f"{key}={value!r}" for key, value in options.items()]
                cls.refuse_member("", f"({', '.join([*map(repr, values), *keywords])})")
            return super().__call__(*values)


class Enumeration(Enum, metaclass=EnumerationType):
    """Base of an enumeration of NKI.

    The argument `public` of a subclass is its name in programs, such as "nisa.engine".
    """

    _public: ClassVar[str]

    def __init_subclass__(cls, *, public: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._public = public

    @property
    def spelled(self) -> str:
        """The member as programs write it: "nisa.engine.vector"."""
        return f"{self._public}.{self.name}"

    @classmethod
    def public_names(cls) -> list[str]:
        """The names of the members that programs may use."""
        return list(cls.__members__)

    @classmethod
    def refuse_member(cls, name: object, spelling: str) -> NoReturn:
        """Refuse a member that does not exist.

        Args:
            name: its name, or its value.
            spelling: how the program asks for it, such as "[3]".

        Raises:
            NoMember: always.
        """
        refuse_attribute(
            lambda: cls._public, str(name), cls.public_names(), spelling=spelling, error=NoMember
        )

    @classmethod
    def _missing_(cls, value: object) -> Any:
        cls.refuse_member(value, f"({value!r})")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            refuse_attribute(lambda: self.spelled, name, ())
