"""The table of PJRT's functions that JAX calls: a slot for each, in memory.

A slot is a Python function of the caller's arguments, declared with `slot`. What it raises becomes
an error of PJRT. A function without a slot answers UNIMPLEMENTED by name.

Functions that free something are an exception: C++ destructors call them also while a Python
exception is on its way, and Python code cannot run then (the exception would surface inside it and
be lost, and JAX would end the process). They are a function of C's library that does nothing and
returns 0; see docs/design/0021.

Slots that JAX calls at every execution also have a fast path, declared with `quick`. It answers the
usual cases from the 64-bit words of the caller's struct, and calls the slot for the others.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias

from trnsim.errors import NotModelled
from trnsim.jax.pjrt.handles import words
from trnsim.jax.pjrt.interrupts import interrupt_again, slot_codes
from trnsim.jax.pjrt.structs import enumeration, slots, struct, version, word_places

Body: TypeAlias = Callable[[Any], None]
"""A slot's function of the caller's struct of arguments."""
Call: TypeAlias = Callable[[int], int]
"""A function as C calls it: it takes that struct's address, and returns an error's handle or 0."""

_Callback: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_VoidCallback: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NAME: Final = b"pjrt_c_api"

error_makers: Final[list[Callable[[BaseException], int]]] = []
"""A single function, added by `pjrt.errors`, that makes an error of PJRT from an exception."""

_bodies: Final[dict[str, tuple[Body, bool]]] = {}
"""The function of each slot, and whether it returns an error."""
_quick_calls: Final[dict[str, Callable[[Call], Call]]] = {}
"""By slot, the function that makes its fast path from the slot's own function."""
_extension_names: Final[list[str]] = []
_referenced_callbacks: Final[list[Any]] = []
"""All functions that C holds; without this reference ctypes would free them."""


def slot(name: str, *, returns_error: bool = True) -> Callable[[Body], Body]:
    """Declare the function of a slot, which gets the caller's struct of arguments."""

    def declare(body: Body) -> Body:
        _bodies[name] = body, returns_error
        return body

    return declare


def value_slot(name: str, field: str, item_of: Callable[[Any], Any], attribute: str) -> None:
    """Declare a slot that writes an attribute of an object into a field of its arguments.

    `item_of` gives the object that the arguments name by a handle.
    """
    getter = attrgetter(attribute)

    @slot(name)
    def write_value(args: Any) -> None:
        setattr(args, field, getter(item_of(args)))


def address_slot(name: str, field: str, item_of: Callable[[Any], Any], attribute: str) -> None:
    """Declare a slot that writes the address and the size of a text or an array of an object.

    `item_of` gives the object that the arguments name by a handle. The size goes to
    the field FIELD_size or num_FIELD.
    """
    names = {member for member, _ in struct(f"{name}_Args")._fields_}
    size_field = f"{field}_size" if f"{field}_size" in names else f"num_{field}"
    getter = attrgetter(attribute)

    @slot(name)
    def write_address(args: Any) -> None:
        array = getter(item_of(args))
        setattr(args, field, array.address)
        setattr(args, size_field, array.size)


def quick(name: str) -> Callable[[Callable[[Call], Call]], Callable[[Call], Call]]:
    """Declare the fast path of a slot; the decorated function makes it from the slot's own.

    The fast path catches what it may raise (`error_handle`), as no exception can pass
    through C.
    """

    def declare(make: Callable[[Call], Call]) -> Callable[[Call], Call]:
        _quick_calls[name] = make
        return make

    return declare


def quick_number(
    slot_name: str, items: Mapping[int, Any], handle: str, field: str, attribute: str
) -> None:
    """Declare the fast path of a slot that writes an attribute of an object into a field."""
    handle_at, field_at = word_places(f"{slot_name}_Args", handle, field)
    getter = attrgetter(attribute)

    def make(call_slot: Call) -> Call:
        def call(address: int) -> int:
            try:
                at = address >> 3
                item = items.get(words[at + handle_at])
                if item is None:
                    return call_slot(address)
                words[at + field_at] = getter(item)
            except BaseException as error:  # noqa: BLE001  an exception cannot pass through C
                return error_handle(error)
            return 0

        return call

    quick(slot_name)(make)


def error_handle(error: BaseException) -> int:
    """The handle of an error that a slot has raised; Ctrl-C is raised again after the slot."""
    if isinstance(error, KeyboardInterrupt):
        interrupt_again()
    return error_makers[0](error)


def extension(name: str) -> None:
    """Declare an extension of the table; its functions are slots."""
    _extension_names.append(name)


def _extension_struct(name: str) -> Any:
    """An extension in memory."""
    block = struct(f"{name}_Extension")()
    block.base.struct_size = ctypes.sizeof(block)
    block.base.type = enumeration("Extension_Type")[name]
    for function, _ in type(block)._fields_[1:]:
        setattr(block, function, ctypes.cast(callback_of(function), ctypes.c_void_p).value)
    return block


def callback_of(name: str) -> Any:
    """A slot's function as C calls it."""
    body, returns_error = _bodies[name]
    arguments_at = struct(f"{name}_Args").from_address

    def call(address: int) -> int:
        try:
            body(arguments_at(address))
        except BaseException as error:  # noqa: BLE001  an exception cannot pass through C
            return error_handle(error)
        return 0

    slot_codes.add(call.__code__)
    function: Call = call
    if name in _quick_calls:
        function = _quick_calls[name](call)
        slot_codes.add(function.__code__)
    callback = (_Callback if returns_error else _VoidCallback)(function)
    _referenced_callbacks.append(callback)
    return callback


def _unimplemented_slot(name: str) -> Any:
    """A function that answers UNIMPLEMENTED."""

    def call(_: int) -> int:
        return error_makers[0](NotModelled(f"PJRT_{name} is not modelled by the neuron device"))

    callback = _Callback(call)
    _referenced_callbacks.append(callback)
    return callback


def is_destructor(name: str) -> bool:
    """True if C++ destructors call a function."""
    return name.endswith("_Destroy")


def noop_address() -> int:
    """The address of a function of C's library that changes nothing and returns 0.

    `fegetround` tells how floating point rounds; 0 is "to nearest" wherever JAX runs. It neither
    blocks nor gives the processor away, as `sched_yield` would under load.
    """
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    return ctypes.cast(library.fegetround, ctypes.c_void_p).value or 0


class FunctionTable:
    """The table in memory, and the capsule in which JAX takes it."""

    def __init__(self) -> None:
        self.api = struct("Api")()
        self.api.struct_size = ctypes.sizeof(self.api)
        self._extensions = [_extension_struct(name) for name in _extension_names]
        self.api.extension_start = _chain([ctypes.addressof(block) for block in self._extensions])
        self.api.pjrt_api_version.struct_size = ctypes.sizeof(struct("Api_Version"))
        major, minor = version()
        self.api.pjrt_api_version.major_version = major
        self.api.pjrt_api_version.minor_version = minor
        self._noop = noop_address()
        for name in slots():
            setattr(self.api, name, self._address(name))

    def _address(self, name: str) -> int:
        """The address of a slot's function."""
        if is_destructor(name):
            return self._noop
        callback = callback_of(name) if name in _bodies else _unimplemented_slot(name)
        return ctypes.cast(callback, ctypes.c_void_p).value or 0

    def capsule(self) -> Any:
        """The table for `register_plugin`."""
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new_capsule(ctypes.addressof(self.api), _NAME, None)

    def neutralise(self) -> None:
        """Make every function do nothing: C++ calls some after Python has ended."""
        for name in slots():
            setattr(self.api, name, self._noop)


def _chain(extensions: list[int]) -> int | None:
    """The first of the extensions, each of which then names the next."""
    base = struct("Extension_Base")
    for address, next_address in pairwise([*extensions, None]):
        base.from_address(address).next = next_address
    return extensions[0] if extensions else None
