"""Boards on which ranks of one machine show the collective that they have come to.

A question to the shared store is a message there and back, which a rank that waits would ask again
and again. So each rank has a board, in memory without a file that others map: the number and a
digest of its latest collectives. A rank that sees its own digest on all boards has met the others.
Where one shows another digest, does not come in time, or has no board that can be read here (it is
of another machine, or the system has no such memory), the store is asked.
"""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from struct import Struct
from typing import Final
from zlib import crc32

from trnsim.device.store import Store

_MARK_BYTES: Final = 16
_SLOTS: Final = 1024
_SLOT: Final = Struct(f"<q{_MARK_BYTES}s")
_BYTES: Final = _MARK_BYTES + _SLOTS * _SLOT.size
_MIN_PAUSE_S: Final = 0.00002
_MAX_PAUSE_S: Final = 0.001
_PAUSE_DIVISOR: Final = 8
"""A pause between two looks is at most the time waited so far, divided by this."""


class Boards:
    """The boards of the ranks that share a store, as one of them sees them."""

    def __init__(self, store: Store, rank: int, prefix: str) -> None:
        self._store, self._prefix, self._rank = store, prefix, rank
        self._own: mmap | None = None
        self._of_others: dict[int, mmap | None] = {}
        address = ""
        with suppress(AttributeError, OSError):  # a system without such memory, or without room
            handle = os.memfd_create("trnsim-board")
            weakref.finalize(self, os.close, handle)
            os.ftruncate(handle, _BYTES)
            self._own = mmap(handle, _BYTES)
            self._own[:_MARK_BYTES] = mark = secrets.token_bytes(_MARK_BYTES)
            address = f"/proc/{os.getpid()}/fd/{handle} {mark.hex()}"
        store.set(self._key(rank), address)

    def meet(
        self, group: str, ranks: Sequence[int], number: int, text: str, patience_s: float
    ) -> bool:
        """Show a collective of a group, and wait until all `ranks` show it too; False if not.

        A rank is at most one collective of a group ahead, so it has two slots for them by turns.
        """
        boards = [self._board(rank) for rank in ranks if rank != self._rank]
        digest = blake2b(text.encode(), digest_size=_MARK_BYTES).digest()
        at = _MARK_BYTES + crc32(f"{group}/{number % 2}".encode()) % _SLOTS * _SLOT.size
        if self._own is None:
            return False
        shown_here = (number + 1, digest)  # an empty slot has 0
        _SLOT.pack_into(self._own, at, *shown_here)
        begun_s = time.monotonic()
        readable = [board for board in boards if board is not None]
        if len(readable) < len(boards):
            return False
        for board in readable:
            while (shown := _SLOT.unpack_from(board, at)) != shown_here:
                waited_s = time.monotonic() - begun_s
                if shown[0] == shown_here[0] or waited_s > patience_s:
                    return False
                time.sleep(min(max(waited_s / _PAUSE_DIVISOR, _MIN_PAUSE_S), _MAX_PAUSE_S))
        return True

    def _key(self, rank: int) -> str:
        return f"{self._prefix}/board/{rank}"

    def _board(self, rank: int) -> mmap | None:
        """The board of another rank; None while it has shown none, or if it is not read here."""
        if rank not in self._of_others and self._store.check([self._key(rank)]):
            (address,) = self._store.multi_get([self._key(rank)])
            self._of_others[rank] = _mapped(address.decode())
        return self._of_others.get(rank)


def _mapped(address: str) -> mmap | None:
    """The board at an address, if its mark is there: another machine has other files."""
    path, _, mark = address.partition(" ")
    with suppress(OSError, ValueError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            board = mmap(handle, _BYTES, access=ACCESS_READ)
        finally:
            os.close(handle)
        if board[:_MARK_BYTES].hex() == mark:
            return board
    return None
