"""`torch_xla.amp`: autocast of the device; a scaler of gradients is not needed with bfloat16."""

from __future__ import annotations

from typing import Any

import torch

from trnsim.xla.absent_names import absence_getter
from trnsim.xla.by_name.amp import syncfree
from trnsim.xla.device_spelling import SPELLING


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  torch_xla's name
    """`torch.autocast("xla")`, in bfloat16 unless another dtype is given."""

    def __init__(
        self,
        device: Any = SPELLING,
        enabled: bool = True,
        dtype: torch.dtype | None = torch.bfloat16,
        cache_enabled: bool | None = None,
    ) -> None:
        kind = torch.device(device).type
        super().__init__(kind, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


__all__ = ["autocast", "syncfree"]

__getattr__ = absence_getter(
    "torch_xla.amp",
    __name__,
    {"GradScaler": ("it is of float16 on GPUs", "bfloat16, whose range is that of float32")},
)
