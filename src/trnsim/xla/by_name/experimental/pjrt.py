"""`torch_xla.experimental.pjrt`, which was the runtime's module before torch_xla 2.1."""

from __future__ import annotations

from typing import Final

from trnsim.xla.by_name.runtime import (
    addressable_device_count,
    device_type,
    global_device_count,
    global_ordinal,
    host_index,
    local_device_count,
    local_ordinal,
    local_process_count,
    process_count,
    process_index,
    set_device_type,
    using_pjrt,
    world_size,
)

__all__ = [
    "addressable_device_count", "device_type", "global_device_count", "global_ordinal",
    "host_index", "local_device_count", "local_ordinal", "local_process_count", "process_count",
    "process_index", "set_device_type", "using_pjrt", "world_size",
]  # fmt: skip

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names
