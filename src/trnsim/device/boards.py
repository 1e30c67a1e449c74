"""Boards: shared memory in which the ranks of one machine publish their latest collectives.

A read of the shared store is a message there and back, which a waiting rank would send again and
again. So each rank has a board, anonymous memory that the others map, with the number and a digest
of its latest collectives. A rank that reads its own digest on all boards need not ask the store.
It does where a board has another digest, is late, or cannot be mapped: on another machine, or on a
system without such memory.
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
    """A rank's own board, and the boards of the other ranks that share its store."""

    def __init__(self, store: Store, rank: int, prefix: str) -> None:
        self._store, self._prefix, self._rank = store, prefix, rank
        self._rank_board: mmap | None = None
        self._boards: dict[int, mmap | None] = {}
        address = ""
        with suppress(AttributeError, OSError):  # a system without such memory, or without room
            handle = os.memfd_create("trnsim-board")
            weakref.finalize(self, os.close, handle)
            os.ftruncate(handle, _BYTES)
            self._rank_board = mmap(handle, _BYTES)
            self._rank_board[:_MARK_BYTES] = mark = secrets.token_bytes(_MARK_BYTES)
            address = f"/proc/{os.getpid()}/fd/{handle} {mark.hex()}"
        store.set(self._key(rank), address)

    def meet(
        self, group: str, ranks: Sequence[int], number: int, text: str, patience_s: float
    ) -> bool:
        """Publish a collective of a group; True once all `ranks` have, else False: ask the store.

        A rank is at most one collective of a group ahead, so it has two slots for them by turns.
        """
        boards = [self._board(rank) for rank in ranks if rank != self._rank]
        digest = blake2b(text.encode(), digest_size=_MARK_BYTES).digest()
        offset = _MARK_BYTES + crc32(f"{group}/{number % 2}".encode()) % _SLOTS * _SLOT.size
        if self._rank_board is None:
            return False
        own_slot = (number + 1, digest)  # an empty slot has 0
        _SLOT.pack_into(self._rank_board, offset, *own_slot)
        begun_s = time.monotonic()
        mapped_boards = [board for board in boards if board is not None]
        if len(mapped_boards) < len(boards):
            return False
        for board in mapped_boards:
            while (slot := _SLOT.unpack_from(board, offset)) != own_slot:
                waited_s = time.monotonic() - begun_s
                if slot[0] == own_slot[0] or waited_s > patience_s:
                    return False
                time.sleep(min(max(waited_s / _PAUSE_DIVISOR, _MIN_PAUSE_S), _MAX_PAUSE_S))
        return True

    def _key(self, rank: int) -> str:
        return f"{self._prefix}/board/{rank}"

    def _board(self, rank: int) -> mmap | None:
        """The board of another rank; None if it has none yet, or it cannot be mapped."""
        if rank not in self._boards and self._store.check([self._key(rank)]):
            (address,) = self._store.multi_get([self._key(rank)])
            self._boards[rank] = _map_board(address.decode())
        return self._boards.get(rank)


def _map_board(address: str) -> mmap | None:
    """The board at an address; None if its mark is absent, as on another machine."""
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
