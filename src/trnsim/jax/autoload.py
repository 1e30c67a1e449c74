"""Rules of automatic loading: when the platform is registered, and when it is the default.

JAX calls every plugin that is installed. This plugin stays away with `TRNSIM_AUTOLOAD=0`, if JAX
has an accelerator of its own in the machine, and if AWS's plugin is installed. A program that asks
for the platform by name gets it in the first two cases: it sets JAX_PLATFORMS=neuron, or imports
`jax_neuronx` or `libneuronxla`.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Final

from trnsim.jax import private

_VARIABLE: Final = "TRNSIM_AUTOLOAD"
_INSTANCE: Final = "TRNSIM_INSTANCE"
_BY_NAME: Final = frozenset({"jax_neuronx", "libneuronxla"})
"""Modules that only programs for this platform import."""
_GROUP: Final = "jax_plugins"
_OURS: Final = "trnsim.jax"

_announcements: Final[list[str]] = []


def is_requested() -> bool:
    """True if the program asks for the platform by name."""
    return private.PLATFORM in private.requested_platforms() or not _BY_NAME.isdisjoint(sys.modules)


def stays_away() -> bool:
    """True if the platform must not be registered."""
    if is_taken():
        return True
    if is_requested():
        return False
    return os.environ.get(_VARIABLE) == "0" or bool(private.accelerator())


def is_taken() -> bool:
    """True if another plugin has the name: AWS's, which is installed or registered already."""
    if private.is_registered():
        return True
    plugins = [plugin for plugin in entry_points(group=_GROUP) if plugin.value != _OURS]
    is_installed = any(private.PLATFORM in f"{plugin.name} {plugin.value}" for plugin in plugins)
    return is_installed or _in_namespace()


def _in_namespace() -> bool:
    """True if a module `jax_plugins.neuron` is installed, the other form of a plugin."""
    return find_spec(_GROUP) is not None and find_spec(f"{_GROUP}.{private.PLATFORM}") is not None


def announce() -> None:
    """Tell a program that did not request the platform, once and on stderr, that it runs on it.

    A program for which TRNSIM_INSTANCE names an instance, as under `trnsim launch`, has asked.
    """
    if (
        _announcements
        or os.environ.get(_INSTANCE)
        or private.requested_platforms()
        or is_requested()
    ):
        return
    _announcements.append(
        "trnsim: the default device of this program is the emulated 'neuron', as JAX has no other "
        f"accelerator ({_VARIABLE}=0 leaves it out)"
    )
    print(_announcements[0], file=sys.stderr)  # noqa: T201  a warning would point at JAX's own line
