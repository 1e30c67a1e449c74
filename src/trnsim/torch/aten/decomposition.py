"""What a decomposition is, and the error of an operator that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trnsim.errors import NotModelled

Decomposition = Callable[..., Any]
"""Of a `Build` and an operator's arguments, tensors as values of the graph, what it returns."""


class Unlowered(NotModelled):
    """An operator, or a form of it, that has no kernel and therefore no time."""
