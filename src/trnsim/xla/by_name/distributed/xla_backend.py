"""`torch_xla.distributed.xla_backend`: its import registers the process group "xla"."""

from __future__ import annotations

from typing import Final

from trnsim.xla import ranks

__path__: Final[list[str]] = []  # as in xla_model

ranks.register()
