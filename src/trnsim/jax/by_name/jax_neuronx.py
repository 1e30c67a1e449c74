"""The module that `import jax_neuronx` gives without AWS's package.

A program that imports it asks for the platform by name, so it gets it: see `trnsim.jax.autoload`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trnsim.jax import initialize

initialize()


def __getattr__(name: str) -> Any:
    """`nki_call`, imported when it is asked for: importing the platform's name stays quick."""
    if name == "nki_call":
        return import_module("trnsim.jax.nki_call").nki_call
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
