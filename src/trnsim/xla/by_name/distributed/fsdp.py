"""`torch_xla.distributed.fsdp`, whose names are refused, each with what is here instead."""

from __future__ import annotations

from typing import Final

from trnsim.xla.absent_names import absent

__path__: Final[list[str]] = []  # as in xla_model

__getattr__ = absent("torch_xla.distributed.fsdp", __name__)
