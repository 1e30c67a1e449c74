from trnsim.isa import DgeMode, DmaCopy, Engine
from trnsim.memory import Memory
from trnsim.profile.measures.transfers import HARDWARE, SOFTWARE, STATIC, UNKNOWN, transfers


def copy(kernel, rows=128, columns=64, **options):
    tile = kernel.tile(Memory.SBUF, rows, columns)
    kernel.do(DmaCopy(tile, kernel.tile(Memory.HBM, rows, columns), **options))


def test_transfers_are_the_dma_instructions_with_their_bytes(timeline):
    found = transfers(timeline)
    spans = [s for s in timeline.spans() if s.opcode == "dma_copy"]
    assert found.index.tolist() == [s.index for s in spans]
    assert found.start_s.tolist() == [s.start_s for s in spans]
    assert found.bytes.tolist()[:2] == [128 * 128 * 2, 128 * 512 * 2]
    assert (found.read_bytes == found.write_bytes).all()


def test_descriptors_are_made_by_who_the_kernel_names(kernel):
    for options in (
        {},
        {"dge_mode": DgeMode.hwdge, "engine": Engine.sync},
        {"dge_mode": DgeMode.swdge},
        {"dge_mode": DgeMode.none},
    ):
        copy(kernel, **options)
    found = transfers(kernel.timeline())
    for at, kind in enumerate((UNKNOWN, HARDWARE, SOFTWARE, STATIC)):
        assert found.of_type(kind).tolist() == [at == i for i in range(4)]
    assert found.queues == ("qDefault", "qSyncDynamicHW", "qDynamicSW", "qStatic")


def test_a_transfer_of_few_partitions_uses_few_engines(kernel):
    """Four partitions use one: nki-dma-overview.rst, Example 1."""
    for rows in (4, 9, 128):
        copy(kernel, rows=rows)
    assert transfers(kernel.timeline()).packets.tolist() == [1, 2, 16]


def test_a_program_without_dma_has_no_transfers(kernel):
    found = transfers(kernel.timeline())
    assert len(found.index) == len(found.bytes) == 0
    assert found.queues == ()


def test_spills_have_a_queue_of_their_own(spilling):
    found = transfers(spilling)
    assert found.queues == ("qDefault", "qSpillReload0")
    assert [found.queues[one] for one in found.queue.tolist()].count("qSpillReload0") == 2
