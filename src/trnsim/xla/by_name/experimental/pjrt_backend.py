"""`torch_xla.experimental.pjrt_backend`: its import registers the process group and "pjrt://"."""

from __future__ import annotations

from typing import Final

from trnsim.xla import ranks

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

ranks.register()
