"""Results that hold on a core, such as the legality of a shape, kept from one run to the next."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from trnsim.arch.neuroncore import NeuronCore

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_CORES: Final = 16
"""Cores whose results are kept: a program has one or two, a study of an estimate thousands."""


class KeptByCore(Generic[_K, _V]):
    """A dictionary for each core, by the core's identity: its hash takes long to compute."""

    def __init__(self, max_results: int) -> None:
        """A cache of about `max_results` results at most for each core."""
        self._max_results = max_results
        self._by_id: dict[int, tuple[NeuronCore, dict[_K, _V]]] = {}

    def on(self, core: NeuronCore) -> dict[_K, _V]:
        """The results of a core, to which its caller adds."""
        entry = self._by_id.get(id(core))
        if entry is None:
            if len(self._by_id) >= MOST_CORES:
                self._by_id.clear()
            entry = self._by_id[id(core)] = core, {}
        if len(entry[1]) > self._max_results:
            entry[1].clear()
        return entry[1]
