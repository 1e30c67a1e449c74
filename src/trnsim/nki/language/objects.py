"""`nl.NKIObject`: the base of a kernel's own configuration objects.

The annotated names of a class are its fields, with or without @dataclass: a call takes them by
position or by keyword, and one that is neither given nor has a default is None. AWS's base class
turns every other keyword into an attribute too, on which public subclasses rely. Before NKI 0.7
instances of a class are equal in a kernel if their attributes are.

Source: nki.language.NKIObject; nki-language-guide.rst, Class Support and Enumerations.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from trnsim.behaviours.language import EQUAL_OBJECTS
from trnsim.errors import IllegalInstruction
from trnsim.nki.dialect import follows
from trnsim.nki.notices import is_simulator
from trnsim.program import has_current_core

_SOURCE = "nki-language-guide.rst, Class Support"

_DATACLASS_CODE_FILE = "<string>"
"""The file name in the code of an `__init__` that @dataclass generates."""


class FieldsMisused(IllegalInstruction, TypeError):
    """Arguments that are no fields of a class, or fields that are given twice."""


class ObjectType(type):
    """The metaclass of `NKIObject`: fields and all keywords of a call become attributes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, which `__init__` makes, or whose attributes are set here.

        `__init__` makes it if the user wrote that method, or if a generated one accepts the
        arguments.

        Raises:
            FieldsMisused: for more positional arguments than fields, or a field given twice.
        """
        init = getattr(cls, "__init__")  # noqa: B009  mypy takes cls.__init__ for an instance's
        is_ours = init is NKIObject.__init__
        if not is_ours and (not _is_generated(init) or _accepts(init, args, kwargs)):
            return super().__call__(*args, **kwargs)
        instance: Any = getattr(cls, "__new__")(cls, *args, **kwargs)  # noqa: B009  as __init__
        for name, value in _attributes(cls, args, kwargs).items():
            object.__setattr__(instance, name, value)  # frozen dataclasses have no other way
        post_init = getattr(instance, "__post_init__", None)
        if post_init is not None:
            post_init()
        return instance


class NKIObject(metaclass=ObjectType):
    """An object whose fields and keyword arguments become attributes."""

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()

    def __eq__(self, other: object) -> bool:
        is_structural = has_current_core() and not is_simulator() and follows(EQUAL_OBJECTS)
        if self is not other and is_structural and type(self) is type(other):
            return vars(self) == vars(other)
        return self is other or NotImplemented

    __hash__ = object.__hash__


def _is_generated(init: Any) -> bool:
    code = getattr(init, "__code__", None)
    return code is not None and code.co_filename == _DATACLASS_CODE_FILE


def _accepts(init: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if the generated __init__ of @dataclass takes the arguments."""
    try:
        inspect.signature(init).bind(None, *args, **kwargs)
    except TypeError:
        return False
    return True


def _attributes(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Attributes by name: fields' defaults, replaced by positional arguments and keywords."""
    defaults = _defaults(cls)
    name = cls.__name__
    fields = f"legal: {', '.join(defaults) or 'none, as the class annotates no names'}"
    if len(args) > len(defaults):
        raise FieldsMisused(
            f"{name} takes {len(defaults)} positional arguments but {len(args)} were given; "
            f"{fields}",
            fix=f"annotate further fields in the class, or pass them by name: {name}(depth=3)",
            source=_SOURCE,
        )
    for field in list(defaults)[: len(args)]:
        if field in kwargs:
            raise FieldsMisused(
                f"{name} with {field!r} by position and by name; each field once, {fields}",
                fix=f"leave out one of them: {field}={kwargs[field]!r}, or the argument before it",
                source=_SOURCE,
            )
    return defaults | dict(zip(defaults, args, strict=False)) | kwargs


def _defaults(cls: type) -> dict[str, Any]:
    """Field -> its default or None, in the order of @dataclass: fields of base classes first."""
    dataclass_fields = {}
    if dataclasses.is_dataclass(cls):
        dataclass_fields = {field.name: field for field in dataclasses.fields(cls)}
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in _annotated_names(base))
    defaults = {}
    for name in names:
        field = dataclass_fields.get(name)
        if field is None:
            defaults[name] = getattr(cls, name, None)
        elif field.init:
            factory = field.default_factory
            default = None if field.default is dataclasses.MISSING else field.default
            defaults[name] = default if factory is dataclasses.MISSING else factory()
    return defaults


def _annotated_names(base: type) -> list[str]:
    """The names that the body of a class annotates, without class variables (ClassVar)."""
    return [
        name
        for name, annotation in inspect.get_annotations(base).items()
        if "ClassVar" not in str(annotation)
    ]
