"""XLA_USE_BF16 and XLA_DOWNCAST_BF16: bfloat16 on the device, while dtype says float32.

Source: torch_xla 2.9.0, csrc/dtype.cpp; measured in tests/xla/oracle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import torch

from trnsim.torch.narrowing import narrowed_dtypes
from trnsim.user_warnings import warn

USE: Final = "XLA_USE_BF16"
DOWNCAST: Final = "XLA_DOWNCAST_BF16"

_WORDS: Final = ("", "true", "false", "no", "off")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class VariableIgnored(UserWarning):
    """Warning of a variable whose value has no effect."""


def install(environment: Mapping[str, str]) -> None:
    """Narrow the dtypes that the two variables name; the first wins for float64."""
    if _is_on(environment, DOWNCAST):
        narrowed_dtypes.update({torch.float32: torch.bfloat16, torch.float64: torch.float32})
    if _is_on(environment, USE):
        narrowed_dtypes.update({torch.float32: torch.bfloat16, torch.float64: torch.bfloat16})


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    """True for "true" and for a number but 0, as torch_xla reads a variable."""
    value = environment.get(name, "").strip().lower()
    is_number = _NUMBER.fullmatch(value) is not None
    if value not in _WORDS and not is_number:
        warn(
            f"{name}={environment[name]!r} is off, as torch_xla reads it; legal: true, false, or "
            f"a number\n  fix: {name}=1, or leave it out",
            VariableIgnored,
        )
    return value == "true" or (is_number and int(value) != 0)
