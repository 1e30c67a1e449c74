"""Records of a kernel on several cores: all cores follow a record, and leave it, together.

Only a run without a race, and without unordered writes of equal bytes, is recorded. Its record has
a record of each core, and the identity of their shared tensors. While all cores agree with it, they
take the same turns, access the same bytes of shared memory, and meet at the same points, so there
is no race either, and the detector is not called. Where values decide which bytes of a tensor a
core accesses, and some core writes that tensor, the detector watches the run.

If a core leaves the record, all do. The detector then receives all events so far, in order. In
place of the values that it would have kept, it reads the bytes that are in memory now: if another
core has written them since, both writes were ordered, and so is every later one to these bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from trnsim.errors import SourceLine
from trnsim.memory import ScalarIndex, Storage, Tile
from trnsim.memory.access import AccessPattern
from trnsim.program.execution import Watcher
from trnsim.program.records import KernelRecord, Records, input_signatures
from trnsim.program.signatures import SignatureInfo

if TYPE_CHECKING:
    from trnsim.program.context import CoreContext


_Access: TypeAlias = tuple[int, int, Sequence[Tile], Sequence[Tile], SourceLine | None]
"""An instruction that agreed with the record: its core and its place there, the tiles in shared
memory that it reads and writes, and its line. A named tuple takes three times as long to make."""


class _Meeting(NamedTuple):
    """A meeting of cores."""

    group: Sequence[int]
    data: Sequence[Tile]


class AgreeingCores:
    """The cores of a call while they agree with their records."""

    def __init__(
        self, record: KernelRecord, contexts: Sequence[CoreContext], watcher: Watcher
    ) -> None:
        self.is_watched = record.is_watched
        self._contexts = contexts
        self._watcher = watcher
        self._log: list[_Access | _Meeting] = []
        self._serials: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    def is_same(self, number: int | None, serial: int) -> bool:
        """True if a shared tensor is the one that has this number in the records of all cores."""
        if number is None:
            return False
        return (
            self._serials.setdefault(number, serial) == serial
            and self._numbers.setdefault(serial, number) == number
        )

    def note_agreement(
        self,
        core: int,
        index: int,
        info: SignatureInfo,
        reads: Sequence[Tile],
        writes: Sequence[Tile],
        line: SourceLine | None,
    ) -> None:
        """Note that an instruction agreed; `reads` and `writes` are in shared memory.

        Raises:
            DataRace: where values decide about races, and the detector is strict.
        """
        if not self.is_watched:
            fixed_reads = [_with_fixed_indices(tile) for tile in reads] if reads else reads
            self._log.append((core, index, fixed_reads, writes, line))
            return
        context = self._contexts[core]
        waits_for = list(context.program.waits_for(index))
        producers = context.instructions_before(index, info.checked, waits_for)
        self._watcher.accessed(core, reads, writes, line, producers)

    def meets(self, group: Sequence[int], data: Iterable[Tile]) -> None:
        """Note that cores meet."""
        if self.is_watched:
            self._watcher.meets(group, data)
        else:
            self._log.append(_Meeting(group, list(data)))

    def release_contexts(self) -> None:
        """Drop the cores, whose run is over: a cycle of references would keep them alive."""
        self._contexts = ()

    def leave(self) -> None:
        """Let all cores leave their records, and tell the detector what has happened.

        Raises:
            DataRace: if the detector is strict and finds one.
        """
        before = [context.leave_own_record() for context in self._contexts]
        for event in self._log:
            if isinstance(event, _Meeting):
                self._watcher.meets(event.group, event.data)
            else:
                core, place, reads, writes, line = event
                self._watcher.accessed(core, reads, writes, line, before[core][place])


class JointCall:
    """A call of a kernel on several cores whose records are kept.

    Attributes:
        outcome: the stored outcome of the record that it agreed with to the end, else None.
    """

    def __init__(self, records: Records, conditions: Hashable, watcher: Watcher) -> None:
        """A call under `conditions`, the settings that determine the outcome of a program."""
        self.outcome: object = None
        self._records = records
        self._conditions = conditions
        self._watcher = watcher
        self._key: Hashable = None
        self._contexts: Sequence[CoreContext] = ()
        self._record: KernelRecord | None = None
        self._agreeing_cores: AgreeingCores | None = None
        self._new_records: list[KernelRecord] = []

    def begin(self, contexts: Sequence[CoreContext], inputs: Sequence[Storage]) -> None:
        """Start, before the kernel is called on `inputs`: follow records, or begin them."""
        self._contexts = contexts
        self._key = self._conditions, input_signatures(inputs)
        record = self._record = self._records.find(self._key)
        if record is not None:
            self._agreeing_cores = AgreeingCores(record, contexts, self._watcher)
            for context, core_record in zip(contexts, (record, *record.others), strict=True):
                context.follow(core_record, inputs, self._agreeing_cores)
        elif self._records.wants(self._key):
            common: dict[int, int] = {}
            self._new_records = [context.record(inputs, common) for context in contexts]

    def meets(self, group: Sequence[int], data: Iterable[Tile] = ()) -> None:
        """Report a meeting of cores to the detector, or to the log while they follow records."""
        if self._agreeing_cores is not None and self._contexts[0].is_following:
            self._agreeing_cores.meets(group, data)
        else:
            self._watcher.meets(group, data)

    def end(self) -> None:
        """Finish, after the kernel has returned on all cores."""
        if self._agreeing_cores is None or self._record is None:
            return
        if all(context.agreed_to_the_end() for context in self._contexts):
            self.outcome = self._record.outcome
        else:
            if self._contexts[0].is_following:
                self._agreeing_cores.leave()
            self._records.forget(self._key)
        self._agreeing_cores.release_contexts()
        self._contexts = ()

    def conclude(self, outcome: object, *, is_certain: bool) -> None:
        """Store new records, if any, with the `outcome`, if it `is_certain` that there is no race.

        They are stored with the record of the first core.
        """
        new_records = [context.end()[1] for context in self._contexts] if self._new_records else []
        self._contexts = ()  # they refer to this call, and would be kept
        complete = [record for record in new_records if record is not None]
        if not is_certain or not new_records or len(complete) < len(new_records):
            return
        first, *first.others = complete
        written_numbers = set[int]().union(*(record.written_common for record in complete))
        indexed_numbers = set[int]().union(*(record.indexed_common for record in complete))
        first.is_watched = not written_numbers.isdisjoint(indexed_numbers)
        for record in complete:
            record.seal()
        first.outcome = outcome
        self._records.keep(self._key, first)


def _with_fixed_indices(tile: Tile) -> Tile:
    """A tile whose vector of indices has a copy of its present values."""
    index = tile.index
    if index is None or isinstance(index, ScalarIndex):
        return tile
    values = index.source.array.copy()
    pattern = AccessPattern.dense(values.shape, values.itemsize)
    data = values.reshape(-1).view("u1")
    storage = Storage(index.source.memory, data.size, data.size, data=data, is_written=True)
    source = Tile(storage, index.source.dtype, pattern)
    return Tile(tile.storage, tile.dtype, tile.pattern, replace(index, source=source))
