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
_CODE_NAMES: Final = (
    (OutOfMemory, "RESOURCE_EXHAUSTED"),
    (NotModelled, "UNIMPLEMENTED"),
    (IllegalInstruction, "UNIMPLEMENTED"),
    (BadInput, "INVALID_ARGUMENT"),
    (EmulatorError, "FAILED_PRECONDITION"),
    (NotImplementedError, "UNIMPLEMENTED"),
    (KeyboardInterrupt, "CANCELLED"),
)
_MESSAGE_WITH_CODE: Final = re.compile(rf"({'|'.join(_CODES)}): (.*)", re.DOTALL)
_ERRORS_KEPT: Final = 4096
"""Number of the latest errors that are kept; earlier handles mean `_DROPPED_ERROR`."""


class PjrtError(NamedTuple):
    """A code of PJRT, and a message."""

    code: int
    message: Text


_errors: Final = Ring[PjrtError](_ERRORS_KEPT)


def code_and_message(error: BaseException) -> tuple[int, str]:
    """The code and the message of an exception."""
    for error_class, name in _CODE_NAMES:
        if isinstance(error, error_class):
            return _CODES[name], str(error) or error_class.__name__
    match = _MESSAGE_WITH_CODE.fullmatch(str(error))
    if match:
        return _CODES[match[1]], match[2]
    frames = traceback.extract_tb(error.__traceback__)
    location = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return _CODES["INTERNAL"], f"{type(error).__name__}: {error}{location}"


def new_error(error: BaseException) -> int:
    """The handle of an error."""
    return new_coded_error(*code_and_message(error))


def new_coded_error(code: int, message: str) -> int:
    """The handle of an error with a code."""
    return _errors.add(PjrtError(code, Text(message)))


error_makers.append(new_error)  # a list, as `table` cannot import this module


@slot("Error_Message", returns_error=False)
def _message(args: Any) -> None:
    error = _errors.get(args.error) or _DROPPED_ERROR
    args.message, args.message_size = error.message.address, error.message.size


@slot("Error_GetCode")
def _code(args: Any) -> None:
    args.code = (_errors.get(args.error) or _DROPPED_ERROR).code


@slot("Error_ForEachPayload")
def _for_each_payload(args: Any) -> None:
    """No payloads: nothing to visit."""
    del args


_DROPPED_ERROR: Final = PjrtError(
    _CODES["INTERNAL"], Text(f"one of more than {_ERRORS_KEPT} errors")
)
