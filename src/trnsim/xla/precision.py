"""XLA_USE_BF16 and XLA_DOWNCAST_BF16: bfloat16 on the device, while dtype says float32.

Source: torch_xla 2.9.0, csrc/dtype.cpp; measured in tests/xla/oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from trnsim.torch.narrowing import narrowed_dtypes

__all__ = ["DOWNCAST", "USE", "serve"]

USE: Final = "XLA_USE_BF16"
DOWNCAST: Final = "XLA_DOWNCAST_BF16"


def serve(environment: Mapping[str, str]) -> None:
    """Narrow the dtypes that the two variables say; the first wins for float64."""
    if _is_on(environment, DOWNCAST):
        narrowed_dtypes.update({torch.float32: torch.bfloat16, torch.float64: torch.float32})
    if _is_on(environment, USE):
        narrowed_dtypes.update({torch.float32: torch.bfloat16, torch.float64: torch.bfloat16})


def _is_on(environment: Mapping[str, str], name: str) -> bool:
    """True for "true" and for a number but 0, as torch_xla reads a variable."""
    value = environment.get(name, "").strip().lower()
    return value == "true" or (value.lstrip("+-").isdecimal() and int(value) != 0)
