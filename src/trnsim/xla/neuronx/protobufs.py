"""Modules of protobufs that programs import, and which are not here: each name is a stand-in.

Programs name their classes in annotations, so a name is there, and refused where it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NoReturn

from trnsim.device.program_line import program_line
from trnsim.errors import NotModelled

_FIX: Final = "torch_neuronx.trace of the whole model, or trnsim compile, which writes our graph"


class ProtobufAbsent(NotModelled, TypeError):
    """A call of a class of protobufs that are not here."""


class _StandIn(type):
    """A class that is refused where it is called; its attributes are such classes too."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise ProtobufAbsent(
            f"{cls.__module__}.{cls.__qualname__}: programs here are no protobufs of HLO",
            fix=_FIX,
            line=program_line(),
        )

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(cls.__module__, f"{cls.__qualname__}.{name}")


def stand_in(public: str, name: str) -> Any:
    """A class called `name` of the module `public`."""
    return _StandIn(name.rpartition(".")[2], (), {"__module__": public, "__qualname__": name})


def serve(public: str, modules: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a module of protobufs.

    `modules` has, by the name of each class that trnsim has, the module of that class.
    """

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {public!r} has no attribute {name!r}")
        if modules and name in modules:
            return getattr(import_module(modules[name]), name)
        return stand_in(public, name)

    return get
