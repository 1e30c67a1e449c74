"""All plugins, and their registration; a plugin waits until its package is imported."""

from __future__ import annotations

from typing import Final

from trnsim.torch.clients import accelerate, lightning, safetensors
from trnsim.torch.clients.imports import when_imported

PLUGINS: Final = (accelerate.PLUGIN, *lightning.PLUGINS, safetensors.PLUGIN)


def register() -> None:
    """Patch each package as soon as the program imports it."""
    for plugin in PLUGINS:
        when_imported(plugin.module, plugin.patch)
