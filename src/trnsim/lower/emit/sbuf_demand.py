"""The bytes of SBUF that all unread results of a program would take at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.graph import Value

if TYPE_CHECKING:
    from trnsim.lower.emit.residents import Residents


class SbufDemand:
    """The bytes of results that are yet to be read, in SBUF or spilled to HBM.

    Attributes:
        wanted_bytes: the largest sum so far of the bytes of a partition that they would take.
    """

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self._unread: dict[int, tuple[Any, Value, int]] = {}
        self.wanted_bytes = 0

    def add(self, value: Value, storage: Any, nbytes: int) -> None:
        """Add a result of `nbytes` of a partition; further places or views of it count once."""
        is_read_later: dict[int, bool] = {}
        self._unread = {
            number: entry
            for number, entry in self._unread.items()
            if entry[0] is not storage and self._residents.is_unread(entry[1], is_read_later)
        }
        earlier_entry = self._unread.get(value.number)
        largest = max(nbytes, earlier_entry[2] if earlier_entry else 0)
        self._unread[value.number] = storage, value, largest
        total_bytes = sum(size for _, _, size in self._unread.values())
        self.wanted_bytes = max(self.wanted_bytes, total_bytes)
