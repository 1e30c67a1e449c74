"""Reuse of on-chip memory by the tensors of a program, and the dependences that it creates.

A compiler gives each tensor an address while it is live, so a tensor that reuses the bytes of
another starts after all accesses to that tensor, in every order of execution. The compiler's choice
of bytes is not public. Here, in the order of issue, a tensor takes the bytes that were freed first.
Fragmentation is not modelled.

Source: memory-hierarchy-overview.rst, note on capacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from trnsim.isa import Engine
from trnsim.memory import Memory, capacity_bytes
from trnsim.program.program import Program

_DMA = Engine.dma


class FreeBytes:
    """The free bytes of a partition, in the order in which they were freed."""

    def __init__(self, nbytes: int) -> None:
        self.free_bytes = nbytes
        self._pieces: deque[tuple[int, list[int]]] = deque([(nbytes, [])])

    def free(self, nbytes: int, users: list[int]) -> None:
        """Free bytes, which become available when `users` have ended."""
        self.free_bytes += nbytes
        self._pieces.append((nbytes, users))

    def allocate(self, nbytes: int) -> list[int]:
        """Allocate bytes; returns the instructions that have to end before they are used."""
        self.free_bytes -= nbytes
        after: list[int] = []
        while nbytes:
            size, users = self._pieces.popleft()
            after += users
            if size > nbytes:
                self._pieces.appendleft((size - nbytes, users))
            nbytes -= min(size, nbytes)
        return after


class _LiveTensor:
    """A live tensor: the instructions that end before it starts, and those that access it."""

    __slots__ = ("_accesses", "_last", "_transfers", "after")

    def __init__(self, after: list[int]) -> None:
        self.after = after
        self._accesses: set[int] = set()
        # DMA transfers that no later access waits for, and the last access of each compute engine,
        # which works nearly in order.
        self._transfers: set[int] = set()
        self._last: dict[Engine, int] = {}

    def access(self, index: int, engine: Engine, program: Program) -> list[int]:
        """Record an access; returns `after` if it depends on none of the earlier accesses."""
        accesses, transfers, after = self._accesses, self._transfers, self.after
        if transfers or (after and accesses):
            waits_for = program.waits_for(index)
            transfers.difference_update(waits_for)
            if after and not (
                accesses.isdisjoint(waits_for)
                and accesses.isdisjoint(
                    [i for i in program.follows(index) if program.instruction(i).engine is engine]
                )
            ):
                after = []
        accesses.add(index)
        if engine is _DMA:
            transfers.add(index)
        else:
            self._last[engine] = index
        return after

    @property
    def users(self) -> list[int]:
        """The instructions after whose ends the tensor is no longer accessed."""
        return [*self._transfers, *self._last.values()]


def add_reuse_waits(program: Program, memories: Iterable[Memory]) -> Program:
    """`program`, in which tensors of `memories` start after those whose bytes they reuse.

    Its tensors must fit in the order of issue.
    """
    pools = {memory: FreeBytes(capacity_bytes(program.core, memory)) for memory in memories}
    for memory, pool in tuple(pools.items()):
        sizes = (use.row_bytes for use in program.uses.values() if use.memory is memory)
        if sum(sizes) <= pool.free_bytes:
            del pools[memory]
    return program.with_waits(_reuse_waits(program, pools)) if pools else program


def _reuse_waits(
    program: Program, pools: dict[Memory, FreeBytes]
) -> Iterator[tuple[int, list[int]]]:
    """(instruction, the instructions that it must follow so that its tensors have room)."""
    memories = tuple(pools)
    engines = [checked.engine for checked in program.checked]
    lives: dict[int, _LiveTensor] = {}
    for index, which in enumerate(program.which):
        engine = engines[which]
        after: list[int] = []
        ended_serials: list[int] = []
        for serial in program.touches.serials(index):
            use = program.uses[serial]
            if use.memory not in memories:
                continue
            life = lives.get(serial)
            if life is None:
                life = lives[serial] = _LiveTensor(pools[use.memory].allocate(use.row_bytes))
            after += life.access(index, engine, program)
            if use.last_use == index and serial not in ended_serials:
                ended_serials.append(serial)
        for serial in ended_serials:
            use = program.uses[serial]
            pools[use.memory].free(use.row_bytes, lives.pop(serial).users)
        if after:
            yield index, after
