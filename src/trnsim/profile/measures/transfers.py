"""The DMA transfers of a timeline, as columns.

One row is one DMA instruction. It moves bytes while it occupies the engines: from its start to the
end of its interval, without its fixed latency. The model spreads a transfer evenly over the DMA
engines that it uses, each of which serves 8 partitions; the share of one engine is called a packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trnsim.arch import NeuronCore
from trnsim.isa import DgeMode, Engine, Instruction
from trnsim.isa.dma.transfer import engines_used
from trnsim.program import Checked
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, Seconds, columns

STATIC: Final = "data"
SOFTWARE: Final = "software_dynamic"
HARDWARE: Final = "hardware_dynamic"
UNKNOWN: Final = "unknown"
QUEUE_TYPES: Final = (STATIC, SOFTWARE, HARDWARE, UNKNOWN)
"""Queue types, by the generator of their descriptors.

Source: profile-schema-reference.rst, DmaQueueType; nki-dge.rst.
"""

_TYPE_OF: Final = {
    DgeMode.none: STATIC,
    DgeMode.swdge: SOFTWARE,
    DgeMode.hwdge: HARDWARE,
    DgeMode.unknown: UNKNOWN,
}
_SUFFIXES: Final = {STATIC: "Static", SOFTWARE: "DynamicSW", HARDWARE: "DynamicHW", UNKNOWN: ""}


@dataclass(frozen=True, slots=True)
class Transfers:
    """All DMA transfers of a timeline in issue order, one array per property.

    Attributes:
        index: the index of the DMA instruction.
        start_s: the time at which it begins to move bytes.
        end_s: the time at which it has moved them.
        write_bytes: bytes written at its destination.
        packets: number of DMA engines that share it.
        queue_type: index of its type in `QUEUE_TYPES`.
        queue: index of its queue in `queues`.
        queues: names of the queues that the kernel uses, by triggering engine and type.
    """

    index: Integers
    start_s: Seconds
    end_s: Seconds
    read_bytes: Integers
    write_bytes: Integers
    packets: Integers
    queue_type: Integers
    queue: Integers
    queues: tuple[str, ...]

    @property
    def bytes(self) -> Integers:
        """Bytes moved: the larger of the bytes read and the bytes written."""
        return np.asarray(np.maximum(self.read_bytes, self.write_bytes))

    def of_type(self, queue_type: str) -> npt.NDArray[np.bool_]:
        """A mask of the transfers with descriptors of this type."""
        return np.asarray(self.queue_type == QUEUE_TYPES.index(queue_type))


def transfers(timeline: Timeline) -> Transfers:
    """The DMA transfers of `timeline`."""
    program, spans = timeline.program, columns(timeline)
    queues: dict[str, int] = {}
    properties = np.zeros((len(program.checked), 6), np.int64)
    for which, checked in enumerate(program.checked):
        if checked.engine is Engine.dma:
            queue_type = _TYPE_OF[getattr(checked.instruction, "dge_mode", DgeMode.unknown)]
            queue = queues.setdefault(_queue_name(checked, queue_type), len(queues))
            sizes = (*_bytes(checked.instruction), _packets(checked.instruction, program.core))
            properties[which] = (1, *sizes, QUEUE_TYPES.index(queue_type), queue)
    rows = properties[spans.which]
    is_dma = rows[:, 0] == 1
    _, read_bytes, written_bytes, packets, queue_types, queue_of = rows[is_dma].T
    return Transfers(
        np.flatnonzero(is_dma),
        spans.start_s[is_dma],
        spans.busy_until_s[is_dma],
        read_bytes,
        written_bytes,
        packets,
        queue_types,
        queue_of,
        tuple(queues),
    )


def _queue_name(checked: Checked, queue_type: str) -> str:
    """The name that Neuron's profiles give the queue of a transfer, such as "qSyncDynamicHW".

    It is the letter q, the engine that triggers the transfer, and a suffix of the queue's type.

    Source of "SpillReload0": fused_mamba.rst; profile-schema-reference.rst, queue_name.
    """
    if checked.is_spill:
        return "qSpillReload0"
    engine = getattr(checked.instruction, "engine", Engine.unknown)
    trigger = "" if engine is Engine.unknown else engine.label.split(" ", maxsplit=1)[0]
    return f"q{trigger}{_SUFFIXES[queue_type]}" if trigger or _SUFFIXES[queue_type] else "qDefault"


def _bytes(instruction: Instruction) -> tuple[int, int]:
    sources, targets = instruction.accesses()
    return sum(tile.nbytes for tile in sources), sum(tile.nbytes for tile in targets)


def _packets(instruction: Instruction, core: NeuronCore) -> int:
    tiles = tuple(tile for _, tile in instruction.tiles())
    return engines_used(core, tiles, int(core.dma_engines))
