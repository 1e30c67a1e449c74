"""Records: the instructions of a kernel's earlier run, which make its next run faster.

A kernel is Python and is always called. While each instruction that it issues equals the next
instruction of the record (same operands on the same tensors, same source line), all that does not
depend on values is taken from the record: legality, dependences and times. Values, and all that
depends on them, are computed again. At the first difference the run leaves the record: the
instructions so far are recorded as if there had been no record, and the run goes on from there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trnsim.dtypes import Dtype
from trnsim.errors import SourceLine
from trnsim.memory import AccessPattern, Storage, Tile, TileLayout
from trnsim.program.plain import PlainStep, plain_step
from trnsim.program.program import Program
from trnsim.program.signatures import SignatureInfo

if TYPE_CHECKING:
    from trnsim.program.context import CoreContext

MAX_STEPS: Final = 50_000
"""Instructions of the longest program that is kept; longer ones are traced at every call."""

MAX_RECORDS: Final = 16
"""Number of records per kernel; the least recently used one is dropped."""


class TileRef(NamedTuple):
    """A tile of a recorded instruction: the number of its storage, and its layout there."""

    number: int
    layout: TileLayout
    dtype: Dtype
    pattern: AccessPattern


class Step(NamedTuple):
    """An instruction of a record.

    Attributes:
        line: the user's line that issued it.
        touches: the tiles that it reads (indices included), then those that it writes, then those
            that it names without accessing them.
        reads: number of tiles that it reads.
        writes: number of tiles that it writes.
        after: the instructions that wrote its registers, and the complement of the one that
            `nl.no_reorder` puts before it.
    """

    info: SignatureInfo
    line: SourceLine | None
    touches: tuple[TileRef, ...]
    reads: int
    writes: int
    after: tuple[int, ...]


@dataclass
class KernelRecord:
    """The instructions of a run of a kernel, in order.

    Attributes:
        signatures: signature -> properties of the instructions with it.
        storages: its storages, without bytes: inputs first, then by first use.
        descriptions: properties of each storage that a program or an error message shows.
        inputs: number of storages that are inputs.
        outcome: results derived from the program, such as its timeline and warnings.
        plain: the result of `plain_step` for each step; empty while the record grows.
        others: the records of the other cores of the launch (`program.joint`).
        is_watched: whether values decide which accesses of its cores race.
        common: number of each shared storage among those that all cores use.
        written_common: the numbers in `common` of shared storages that it writes.
        indexed_common: the numbers in `common` of shared storages that it accesses by indices.
    """

    program: Program
    signatures: dict[tuple[object, ...], SignatureInfo]
    inputs: int
    steps: list[Step] = field(default_factory=list[Step])
    storages: list[Storage] = field(default_factory=list["Storage"])
    descriptions: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    outcome: Any = None
    plain: Sequence[PlainStep | None] = ()
    others: list[KernelRecord] = field(default_factory=list["KernelRecord"])
    is_watched: bool = False
    common: dict[int, int] = field(default_factory=dict[int, int])
    written_common: set[int] = field(default_factory=set[int])
    indexed_common: set[int] = field(default_factory=set[int])

    def seal(self) -> None:
        """Prepare a complete record for comparisons."""
        self.plain = [
            None
            if step.after
            else plain_step(
                step.info, step.line, [(t.number, t.layout) for t in step.touches], self.common
            )
            for step in self.steps
        ]


class Recorder:
    """Builds the record of a run while it issues instructions.

    Attributes:
        record: the record so far; None if the program is too long to be kept.
    """

    def __init__(
        self,
        record: KernelRecord,
        inputs: Sequence[Storage],
        common: dict[int, int] | None = None,
    ) -> None:
        """A recorder of a core; `common` has the numbers of storages that all cores share."""
        self.record: KernelRecord | None = record
        self._common = common
        self._numbers: dict[int, int] = {}
        for storage in inputs:
            self._number_of(storage)

    def note(
        self,
        info: SignatureInfo,
        line: SourceLine | None,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> None:
        """Add an issued instruction to the record."""
        if self.record is None:
            return
        if len(self.record.steps) == MAX_STEPS:
            self.record = None
            return
        touches = tuple(map(self._tile_ref, [*reads, *writes, *fences]))
        if self._common is not None:
            self._note_common(self.record, reads, writes)
        self.record.steps.append(Step(info, line, touches, len(reads), len(writes), after))

    def _note_common(self, record: KernelRecord, reads: list[Tile], writes: list[Tile]) -> None:
        """Note which storages that all cores share are written, and accessed by indices."""
        for tile in writes:
            number = record.common.get(self._numbers[tile.storage.serial])
            if number is not None:
                record.written_common.add(number)
        for tile in (*reads, *writes):
            number = record.common.get(self._numbers[tile.storage.serial])
            if number is not None and tile.index is not None:
                record.indexed_common.add(number)

    def _tile_ref(self, tile: Tile) -> TileRef:
        return TileRef(self._number_of(tile.storage), tile.layout, tile.dtype, tile.pattern)

    def _number_of(self, storage: Storage) -> int:
        number = self._numbers.setdefault(storage.serial, len(self._numbers))
        if self.record is not None and number == len(self.record.storages):
            self.record.storages.append(storage.bare())
            self.record.descriptions.append(storage_description(storage))
            if self._common is not None and storage.is_shared:
                shared = self._common.setdefault(storage.serial, len(self._common))
                self.record.common[number] = shared
        return number


def storage_description(storage: Storage) -> tuple[object, ...]:
    """The properties of a storage that a program or an error message shows."""
    return (
        storage.memory,
        storage.nbytes,
        storage.pitch_bytes,
        storage.is_shared,
        storage.name,
        storage.line,
        (storage.row_bytes, storage.origin_bytes) if storage.is_placed else None,
    )


@dataclass
class _CallHistory:
    """History of calls with equal keys: the number traced since the last record, and the record."""

    traced_count: int = 0
    record: KernelRecord | None = None


class Records:
    """The records of a kernel, by a key of the call's arguments.

    The choice of record affects the speed of a call, never its results.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[Hashable, _CallHistory] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable) -> KernelRecord | None:
        """The record to compare a call with, or None."""
        with self._lock:
            calls = self._calls.get(key)
            if calls is None:
                return None
            self._calls.move_to_end(key)
            return calls.record

    def wants(self, key: Hashable) -> bool:
        """True if a traced call should be recorded: from the second call on.

        Most kernels in tests are called once, and a record costs time and memory.
        """
        with self._lock:
            calls = self._calls.setdefault(key, _CallHistory())
            self._calls.move_to_end(key)
            if len(self._calls) > MAX_RECORDS:
                self._calls.popitem(last=False)
            calls.traced_count += 1
            return calls.traced_count > 1

    def keep(self, key: Hashable, record: KernelRecord) -> None:
        """Store the record of a call."""
        with self._lock:
            self._calls[key] = _CallHistory(record=record)

    def forget(self, key: Hashable) -> None:
        """Drop a record that a call has left: the next call is traced, its successor recorded."""
        with self._lock:
            self._calls.pop(key, None)


class Call:
    """A call of a kernel that is compared with the records of its earlier calls.

    Attributes:
        outcome: the stored outcome of the record that it agreed with to the end, else None.
    """

    def __init__(self, records: Records, conditions: Hashable) -> None:
        """A call under `conditions`, the settings that determine the outcome of a program."""
        self.outcome: object = None
        self._records = records
        self._conditions = conditions
        self._key: Hashable = None
        self._new_record: KernelRecord | None = None

    def begin(self, context: CoreContext, inputs: Sequence[Storage]) -> None:
        """Start, before the kernel is called on `inputs`: follow a record, or begin one."""
        self._key = self._conditions, input_signatures(inputs)
        record = self._records.find(self._key)
        if record is not None:
            context.follow(record, inputs)
        elif self._records.wants(self._key):
            context.record(inputs)

    def end(self, context: CoreContext) -> None:
        """Finish, after the kernel has returned."""
        record, self._new_record = context.end()
        if record is not None:
            self.outcome = record.outcome
        elif self._records.find(self._key) is not None:
            self._records.forget(self._key)

    def conclude(self, outcome: object) -> None:
        """Store a new record, if any, with the `outcome` derived from its program."""
        if self._new_record is not None:
            self._new_record.seal()
            self._new_record.outcome = outcome
            self._records.keep(self._key, self._new_record)


class RankCall:
    """The call of a kernel on one of several ranks, which share a record while it grows.

    The first rank with such inputs is traced and produces the record; every other rank is compared
    with its current state. A rank that overtakes the first, or issues other instructions, leaves.
    """

    def __init__(self, records: dict[Hashable, KernelRecord]) -> None:
        """A call on a rank of the world whose ranks share `records`."""
        self.outcome: object = None
        self._records = records
        self._context: CoreContext | None = None

    def begin(self, context: CoreContext, inputs: Sequence[Storage]) -> None:
        """Start, before the kernel is called on `inputs`."""
        self._context, key = context, input_signatures(inputs)
        if key in self._records:
            context.follow(self._records[key], inputs)
        else:
            self._records[key] = context.record(inputs)

    def end(self, context: CoreContext) -> None:
        """Finish, after the kernel has returned; the record may still grow."""

    def conclude(self) -> None:
        """Compare the length with that of the record, after all ranks have ended."""
        if self._context is not None:
            self._context.end()


def input_signatures(inputs: Sequence[Storage]) -> tuple[object, ...]:
    """The size and the line of each input: the key by which a record is chosen."""
    return tuple((s.nbytes, s.pitch_bytes, s.name, s.line) for s in inputs)
