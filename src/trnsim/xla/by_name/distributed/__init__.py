"""`torch_xla.distributed`."""

from __future__ import annotations

from typing import Any

from trnsim.xla.absent_names import absence_getter

_absent = absence_getter("torch_xla.distributed", __name__)


def __getattr__(name: str) -> Any:
    """The optimizer of `zero_redundancy_optimizer`, which programs import from here too."""
    if name == "ZeroRedundancyOptimizer":
        from trnsim.xla.by_name.distributed.zero_redundancy_optimizer import (  # noqa: PLC0415  it imports torch.optim
            ZeroRedundancyOptimizer,
        )

        return ZeroRedundancyOptimizer
    return _absent(name)
