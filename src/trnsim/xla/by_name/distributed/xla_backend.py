"""`torch_xla.distributed.xla_backend`: its import registers the process group "xla"."""

from __future__ import annotations

from typing import Final

from trnsim.xla import ranks

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

ranks.register()
