"""Places of tiles: instructions of one signature are judged and priced alike wherever they lie."""

from dataclasses import replace

import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.dtypes import FLOAT32
from trnsim.errors import EmulatorError
from trnsim.isa import DmaCompute, Instruction, NcMatmul
from trnsim.isa.reference.example import examples
from trnsim.memory import AccessPattern, Memory, Storage, Tile

CORES = (NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4)
KINDS = Instruction.registry
ROOM_BYTES = 8192
PLACES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 1024, 1984, 2044, 2046, 2048, 2112, 4032, 4096, 6144)


def at(tile, byte):
    """The tile some bytes further in its partitions."""
    pattern = AccessPattern.dense(tile.shape, tile.dtype.itemsize)
    pitch = pattern.strides_bytes[0] + ROOM_BYTES
    strides = (pitch, *pattern.strides_bytes[1:])
    storage = Storage(tile.memory, tile.shape[0] * pitch, pitch)
    return Tile(storage, tile.dtype, AccessPattern(tile.shape, strides, byte))


def verdict(instruction, core):
    """The refusal or the price of an instruction, without the numbers of its banks."""
    try:
        return instruction.price(core, instruction.verify(core))
    except EmulatorError as error:
        return type(error), error.fix


def moved(declared):
    """Each example with one of its tiles on chip at each place, operand by operand."""
    for instance in examples(declared):
        for name in declared.operands:
            tile = getattr(instance, name)
            if isinstance(tile, Tile) and tile.memory.is_on_chip:
                yield [
                    replace(instance, **{name: at(tile, byte)})
                    for byte in PLACES
                    if byte % tile.dtype.itemsize == 0
                ]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("declared", KINDS.values(), ids=KINDS)
def test_what_shares_a_signature_shares_legality_and_price(declared):
    for instances in moved(declared):
        for core in CORES:
            known = {}
            for one in instances:
                found = verdict(one, core)
                assert known.setdefault(one.signature(), found) == found


def test_a_tile_that_fits_its_bank_does_not_speak_for_one_that_crosses_it(bench, core_v3):
    work = bench(core_v3, has_values=False)
    ones = work.empty((32, 32), FLOAT32)
    bank_bytes = int(core_v3.psum_bank_bytes)
    assert bank_bytes.bit_count() == 1  # a signature knows banks of a power of two
    fits, crosses = (
        at(work.empty((32, 32), FLOAT32, Memory.PSUM), byte) for byte in (0, bank_bytes - 64)
    )
    work.issue(NcMatmul(fits, ones, ones))
    with pytest.raises(EmulatorError, match="reaches from PSUM bank 0 of its tensor to bank 1"):
        work.issue(NcMatmul(crosses, ones, ones))


def test_aligned_places_within_a_partition_share_a_signature(bench):
    work = bench()
    ones = work.empty((32, 32), FLOAT32)
    for memory, places in ((Memory.SBUF, (0, 64, 2048)), (Memory.PSUM, (0, 128, 2048))):
        tiles = [at(work.empty((32, 32), FLOAT32, memory), byte) for byte in places]
        signatures = {DmaCompute(t, (ones, ones), "add").signature() for t in tiles}
        assert len(signatures) == 1
        for tile in tiles:
            rows = [Tile(tile.storage, FLOAT32, tile.pattern.slice(0, i, i + 1)) for i in (1, 2)]
            assert rows[0].signature != rows[1].signature


@pytest.mark.parametrize("is_first", [True, False])
def test_a_sum_in_place_does_not_speak_for_one_beside_it(bench, core_v4, is_first):
    """On v4 only the first is made at the full rate; the two differ by where a source lies."""
    work = bench(core_v4, has_values=False)
    other = work.empty((128, 512), FLOAT32, Memory.HBM)
    dst, beside = (at(work.empty((128, 512), FLOAT32), byte) for byte in (0, 64))
    kinds = [DmaCompute(dst, (dst, other), "add"), DmaCompute(dst, (beside, other), "add")]
    for one in kinds if is_first else kinds[::-1]:
        work.issue(one)
    times = [checked.cost.interval_s for checked in work.program.checked]
    in_place, apart = times if is_first else times[::-1]
    assert 2 * in_place == pytest.approx(apart)
