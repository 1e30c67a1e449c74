"""`torch_xla.distributed.spmd`, whose names are refused, each with its replacement."""

from __future__ import annotations

from typing import Final

from trnsim.xla.absent_names import absent

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

__getattr__ = absent("torch_xla.distributed.spmd", __name__)
