"""The type of a decomposition, and the error of an operator that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trnsim.errors import NotModelled

Decomposition = Callable[..., Any]
"""From a `Build` and an operator's arguments (tensors as graph values) to its results."""


class Unlowered(NotModelled):
    """An operator, or a form of it, that has no kernel and therefore no time."""
