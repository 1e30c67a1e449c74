"""Errors as PJRT carries them: a code and a message, from the exceptions of a slot.

JAX shows both as a `JaxRuntimeError`. An exception of trnsim arrives with its fix, its source and
the line of the user's program; an exception of XLA's own client keeps XLA's code.
"""

from __future__ import annotations

import re
import traceback
from typing import Any, Final, NamedTuple

from trnsim.errors import BadInput, EmulatorError, IllegalInstruction, NotModelled, OutOfMemory
from trnsim.jax.pjrt.handles import Ring, Text
from trnsim.jax.pjrt.structs import enumeration
from trnsim.jax.pjrt.table import error_makers, slot

_CODES: Final = enumeration("Error_Code")
_KINDS: Final = (
    (OutOfMemory, "RESOURCE_EXHAUSTED"),
    (NotModelled, "UNIMPLEMENTED"),
    (IllegalInstruction, "UNIMPLEMENTED"),
    (BadInput, "INVALID_ARGUMENT"),
    (EmulatorError, "FAILED_PRECONDITION"),
    (NotImplementedError, "UNIMPLEMENTED"),
    (KeyboardInterrupt, "CANCELLED"),
)
_WITH_CODE: Final = re.compile(rf"({'|'.join(_CODES)}): (.*)", re.DOTALL)
_ROOM: Final = 4096


class PjrtError(NamedTuple):
    """A code of PJRT, and a message."""

    code: int
    message: Text


_errors: Final = Ring[PjrtError](_ROOM)


def code_and_message(error: BaseException) -> tuple[int, str]:
    """The code and the message of an exception."""
    for kind, name in _KINDS:
        if isinstance(error, kind):
            return _CODES[name], str(error) or kind.__name__
    match = _WITH_CODE.fullmatch(str(error))
    if match:
        return _CODES[match[1]], match[2]
    place = traceback.extract_tb(error.__traceback__)
    where = f" at {place[-1].filename}:{place[-1].lineno}" if place else ""
    return _CODES["INTERNAL"], f"{type(error).__name__}: {error}{where}"


def new_error(error: BaseException) -> int:
    """The handle of an error."""
    return new_coded_error(*code_and_message(error))


def new_coded_error(code: int, message: str) -> int:
    """The handle of an error with a code."""
    return _errors.add(PjrtError(code, Text(message)))


error_makers.append(new_error)


@slot("Error_Message", returns_error=False)
def _message(args: Any) -> None:
    error = _errors.get(args.error) or _FORGOTTEN
    args.message, args.message_size = error.message.address, error.message.size


@slot("Error_GetCode")
def _code(args: Any) -> None:
    args.code = (_errors.get(args.error) or _FORGOTTEN).code


@slot("Error_ForEachPayload")
def _for_each_payload(args: Any) -> None:
    """No payloads: nothing to visit."""
    del args


_FORGOTTEN: Final = PjrtError(_CODES["INTERNAL"], Text(f"one of more than {_ROOM} errors"))
