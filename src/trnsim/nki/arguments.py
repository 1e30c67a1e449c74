"""Checks of arguments: whole numbers, booleans and tensors, or an error with the legal values."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from trnsim.absence import page_of
from trnsim.errors import IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.isa.language.fields import is_iterable, tensor_fix
from trnsim.memory import Tile

SOURCE = "nki.language.NkiTensor"


_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


def documented(function: Callable[_P, _R], module: str = "nl") -> Callable[_P, _R]:
    """Decorator of a function of NKI: errors of wrong calls show its signature.

    `module` is the usual name of its module, or class, in programs.
    """
    label = f"{module}.{function.__name__}"

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            check_call(label, inspect.signature(function), args, kwargs)
            raise

    return call


def documented_in(module: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """`documented` for a module whose usual name is not nl."""
    return lambda function: documented(function, module)


def documented_class(label: str) -> Callable[[type[_T]], type[_T]]:
    """Decorator of a class of NKI: errors of wrong calls show the signature of the class or method.

    `label` is the class in programs, such as "ncc.ReplicaGroup".
    """

    def decorate(cls: type[_T]) -> type[_T]:
        name = "__init__" if "__init__" in vars(cls) else "__new__"
        constructor, signature = getattr(cls, name), inspect.signature(cls)

        @wraps(constructor)
        def call(instance: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return constructor(instance, *args, **kwargs)
            except TypeError:
                check_call(label, signature, args, kwargs)
                raise

        setattr(cls, name, call)
        for member_name, member in list(vars(cls).items()):
            if isinstance(member, classmethod) and not member_name.startswith("_"):
                setattr(
                    cls, member_name, staticmethod(documented(getattr(cls, member_name), label))
                )
        return cls

    return decorate


def check_call(
    label: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str = "",
    source: str = "",
) -> None:
    """Refuse a call of `label` that does not fit its signature.

    Args:
        label: beginning of the error's text: the function, perhaps with its context.
        signature: the function's signature.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        name: the function's name for the fix, if it differs from `label`.
        source: the document to cite; by default the page of `label`.

    Raises:
        IllegalInstruction: with the signature in the fix.
    """
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        legal = list(signature.parameters)
        parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        plain_signature = signature.replace(
            parameters=parameters, return_annotation=signature.empty
        )
        similar_names = [
            n for key in kwargs if key not in legal for n in get_close_matches(key, legal, 1)
        ]
        raise IllegalInstruction(
            f"{label}: {error}; legal: {', '.join(legal)}",
            fix=f"call it as {name or label}{plain_signature}"
            + (f"; perhaps with {', '.join(similar_names)}" if similar_names else ""),
            source=source or page_of(label),
        ) from None


def integers(label: str, *values: Any, source: str = SOURCE) -> tuple[int, ...]:
    """Integers that are constant when the kernel is compiled.

    Raises:
        IllegalInstruction: for a register, a fraction, or no number at all.
    """
    if all(value.__class__ is int for value in values):  # the usual case
        return values
    try:
        if not any(isinstance(value, VirtualRegister) for value in values):
            return tuple(operator.index(value) for value in values)
    except TypeError:
        pass
    fix = "pass integers: n // 2 or int(n), not n / 2"
    if any(isinstance(value, VirtualRegister) for value in values):
        fix = "pass integers; a register between brackets is tensor[register] or, for several "
        fix += "elements, tensor[nl.ds(register, length)]"
    values_text = ", ".join(map(repr, values))
    raise IllegalInstruction(
        f"{label}({values_text}); legal: whole numbers known when the kernel is compiled",
        fix=fix,
        source=source,
    )


def lengths(label: str, values: Any, source: str = SOURCE) -> tuple[int, ...]:
    """A sequence of integers that are constant when the kernel is compiled.

    Raises:
        IllegalInstruction: for any other value.
    """
    if not is_iterable(values):
        raise IllegalInstruction(
            f"{label}({values!r}); legal: a sequence of whole numbers",
            fix="pass a tuple, such as (128, 512)",
            source=source,
        )
    return integers(label, *values, source=source)


def boolean(label: str, value: Any, source: str = SOURCE) -> bool:
    """`value` as True or False.

    Raises:
        IllegalInstruction: for any value but these, 0 and 1.
    """
    if not isinstance(value, bool | int | np.bool_) or value not in {0, 1}:
        raise IllegalInstruction(
            f"{label}({value!r}); legal: True or False", fix="pass a boolean", source=source
        )
    return bool(value)


def check_tensor(label: str, value: Any, source: str = SOURCE) -> Tile:
    """`value`, checked to be a tensor.

    Raises:
        IllegalInstruction: for any other value.
    """
    if not isinstance(value, Tile):
        raise IllegalInstruction(
            f"{label} of {type(value).__name__}; legal: a tensor",
            fix=tensor_fix(value, "pass a tensor made by nl.ndarray, or a view of one"),
            source=source,
        )
    return value


def label_of(call: str, name: Any, source: str) -> str:
    """The text of `name=`; "" for None.

    Raises:
        IllegalInstruction: for any other value.
    """
    if name is None or isinstance(name, str):
        return name or ""
    raise IllegalInstruction(
        f"{call}(name={name if isinstance(name, int | float) else type(name).__name__}); "
        "legal: a string",
        fix='name it by a string such as name="weights", or leave name out',
        source=source,
    )
