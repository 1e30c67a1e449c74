"""`nl.NKIObject`: the base of a kernel's own configuration objects.

AWS's base class turns every keyword into an attribute. Public subclasses rely on that although they
are decorated with @dataclass, whose generated __init__ would refuse keywords without an annotation
and require fields without a default.

Source: nki.language.NKIObject.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

_DATACLASS_CODE_FILE = "<string>"
"""The file name in the code of an `__init__` that @dataclass generates."""


class ObjectType(type):
    """The metaclass of `NKIObject`: all keywords of a call become attributes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance: by __init__, or from all keywords if a generated __init__ refuses them."""
        init = getattr(cls, "__init__")  # noqa: B009  mypy takes cls.__init__ for an instance's
        if not _is_generated(init) or _accepts(init, args, kwargs):
            return super().__call__(*args, **kwargs)
        instance: Any = object.__new__(cls)  # type: ignore[arg-type]  # cls is the class itself
        for name, value in _attributes(cls, args, kwargs).items():
            object.__setattr__(instance, name, value)  # frozen dataclasses have no other way
        post_init = getattr(instance, "__post_init__", None)
        if post_init is not None:
            post_init()
        return instance


class NKIObject(metaclass=ObjectType):
    """An object whose keyword arguments become attributes; fields without a value are absent."""

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            setattr(self, name, value)
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()


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
    fields = [field for field in dataclasses.fields(cls) if field.init]
    if len(args) > len(fields):
        raise TypeError(
            f"{cls.__name__} takes {len(fields)} positional arguments but {len(args)} were given"
        )
    values = {
        field.name: field.default_factory()
        for field in fields
        if field.default_factory is not dataclasses.MISSING
    }
    values |= {
        field.name: field.default for field in fields if field.default is not dataclasses.MISSING
    }
    values |= {field.name: value for field, value in zip(fields, args, strict=False)}
    return values | kwargs
