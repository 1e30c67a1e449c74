"""`torch_xla.distributed.spmd`, whose names are refused, each with its replacement."""

from __future__ import annotations

from typing import Final

from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

__getattr__ = absence_getter("torch_xla.distributed.spmd", __name__)
