"""Allocation: capacities of each generation, addresses, and what is refused."""

import re

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT32, UINT8
from trnsim.errors import IllegalInstruction, OutOfMemory
from trnsim.memory import CoreMemory, HbmBytes, Memory, SharedTensors

SBUF, PSUM, HBM = Memory.SBUF, Memory.PSUM, Memory.HBM


@pytest.fixture
def memory(core):
    return CoreMemory(core, has_values=False)


def test_capacities_are_those_of_the_core(memory, core):
    assert memory.capacity_bytes(SBUF) == core.sbuf_partition_bytes
    assert memory.capacity_bytes(PSUM) == 16 * 1024
    assert memory.capacity_bytes(HBM) == core.hbm_bytes


@pytest.mark.parametrize("space", [SBUF, PSUM])
def test_a_tensor_may_fill_a_partition_and_not_one_byte_more(memory, core, space):
    full = memory.capacity_bytes(space)
    storage, layout = memory.allocate((128, full), UINT8, space)
    assert (storage.nbytes, storage.pitch_bytes) == (128 * full, full)
    assert layout.pattern.shape == (128, full)
    message = rf"needs {full + 1} bytes a partition; {core.name} has {full} a partition"
    with pytest.raises(OutOfMemory, match=message) as caught:
        memory.allocate((1, full + 1), UINT8, space)
    assert caught.value.line.file == __file__
    assert caught.value.fix
    assert caught.value.source


def test_a_tensor_may_fill_hbm_and_not_one_byte_more(memory):
    full = memory.capacity_bytes(HBM)
    assert memory.allocate((full,), UINT8, HBM)[0].nbytes == full
    with pytest.raises(OutOfMemory, match=f"needs {full + 1} bytes; "):
        memory.allocate((full + 1,), UINT8, HBM)


def test_what_is_held_in_hbm_is_counted_by_kind(core):
    shared = SharedTensors()
    first, second = (CoreMemory(core, has_values=False, shared=shared) for _ in range(2))
    array = np.zeros((4, 6), np.float32)
    first.adopt(array, "a", FLOAT32)
    first.adopt(array[:1], "", FLOAT32, is_constant=True)
    for memory in (first, second):
        memory.allocate((8, 2), BFLOAT16, HBM)
        memory.allocate((8, 2), BFLOAT16, SBUF)
        memory.allocate_shared((16,), FLOAT32)
    assert first.hbm == HbmBytes(tensors=96 + 64, constants=24, scratchpad=32)
    assert second.hbm == HbmBytes(tensors=0, constants=0, scratchpad=32)  # the same shared tensor
    alone = CoreMemory(core, has_values=False)
    alone.allocate_shared((16,), FLOAT32)
    assert alone.hbm == HbmBytes(tensors=64)


@pytest.mark.parametrize("space", [SBUF, PSUM])
def test_128_partitions_are_legal_and_129_are_not(memory, core, space):
    memory.allocate((128, 4), FLOAT32, space)
    message = rf"\(129, 4\) has 129 partitions; legal on {core.name}: at most 128"
    with pytest.raises(IllegalInstruction, match=message):
        memory.allocate((129, 4), FLOAT32, space)
    memory.allocate((129, 4), FLOAT32, HBM)


@pytest.mark.parametrize("shape", [(), (0, 4), (4, 0), (4, -1)])
def test_a_tensor_without_elements_is_refused(memory, shape):
    with pytest.raises(IllegalInstruction, match=re.escape(f"shape {shape}; legal: one or more")):
        memory.allocate(shape, FLOAT32, SBUF)


def test_the_ocp_format_is_legal_from_v4_on(core_v3, core_v4):
    CoreMemory(core_v4, has_values=False).allocate((1, 1), FLOAT8_E4M3FN, SBUF)
    message = "float8_e4m3fn on NeuronCore-v3; legal from NeuronCore-v4 on"
    with pytest.raises(IllegalInstruction, match=message):
        CoreMemory(core_v3, has_values=False).allocate((1, 1), FLOAT8_E4M3FN, SBUF)


def test_tensors_without_an_address_share_nothing(memory):
    first, second = (memory.allocate((4, 4), FLOAT32, SBUF)[0] for _ in range(2))
    assert first is not second
    assert not first.is_placed


def test_tensors_with_an_address_share_the_bytes_of_the_memory(bench):
    work = bench()
    first = work.empty((32, 4), FLOAT32, address=(32, 16))
    second = work.empty((32, 8), FLOAT32, address=(32, 0))
    first.array[...] = 7
    assert second.array[:, 4:].tolist() == [[7.0] * 4] * 32
    assert first.storage.is_placed


@pytest.mark.parametrize("space", [SBUF, PSUM])
def test_an_address_may_reach_the_last_byte_and_partition(memory, space):
    full = memory.capacity_bytes(space)
    width = 2048 if space is PSUM else 4
    memory.allocate((32, width), UINT8, space, address=(96, full - width))
    for address in ((96, full - width + 1), (97, 0), (-1, 0), (0, -1)):
        with pytest.raises(OutOfMemory, match=re.escape(f"address={address} for a tensor of 32")):
            memory.allocate((32, width), UINT8, space, address=address)


@pytest.mark.parametrize("space", [SBUF, PSUM])
def test_an_address_is_of_its_tensor_alone(memory, space):
    first, layout = memory.allocate((32, 8), FLOAT32, space, address=(32, 2048), name="first")
    second, same = memory.allocate((32, 8), FLOAT32, space, address=(32, 2048), name="second")
    assert (first.name, second.name) == ("first", "second")
    assert first.serial < second.serial
    assert same == layout
    assert layout.box == (32, 63, 2048, 2079)
    assert first.row_bytes == 32
    for shape, dtype, address, box in (
        ((32, 8), FLOAT32, (0, 4096), (0, 31, 4096, 4127)),
        ((32, 8), BFLOAT16, (32, 2048), (32, 63, 2048, 2063)),
        ((1, 1), UINT8, (127, 0), (127, 127, 0, 0)),
        ((32, 2, 4), FLOAT32, (32, 2048), (32, 63, 2048, 2079)),
    ):
        assert memory.allocate(shape, dtype, space, address=address)[1].box == box


@pytest.mark.parametrize("offset", [4, 64, 1024, 2044, 2049, 3 * 2048 + 4])
def test_an_address_in_psum_begins_at_a_bank(memory, offset):
    memory.allocate((128, 1024), BFLOAT16, PSUM, address=(0, 3 * 2048))
    memory.allocate((32, 4), FLOAT32, SBUF, address=(0, offset))
    rest = offset % 2048
    message = f"address=(0, {offset}) of a tensor in PSUM, {rest} bytes into a bank; legal: offsets"
    with pytest.raises(IllegalInstruction, match=re.escape(message)) as caught:
        memory.allocate((32, 4), FLOAT32, PSUM, address=(0, offset))
    assert caught.value.source == "nki/migration/index.rst, Improved allocation API"
    assert "bank * 2048" in caught.value.fix


def test_tensors_at_one_address_have_accumulations_of_their_own(bench):
    work = bench()
    tile = work.empty((32, 1024), FLOAT32, PSUM, address=(0, 0))
    again = work.empty((32, 2), FLOAT32, PSUM, address=(0, 2048))
    storage = tile.storage
    storage.accumulation_mask.add(storage.dense_pattern(tile.pattern.slice(1, 512, 1024)), 4)
    flags = storage.accumulation_mask.flags(storage.dense_pattern(tile.pattern), 4)
    assert flags.tolist() == [[False] * 512 + [True] * 512] * 32
    assert again.storage.accumulation_mask.is_disjoint(
        again.storage.dense_pattern(again.pattern), 4
    )


def test_an_address_in_hbm_is_nothing_to_place(memory):
    assert not memory.allocate((4, 4), FLOAT32, HBM, address=(0, 0))[0].is_placed


def test_on_chip_a_row_is_a_partition(memory):
    storage, layout = memory.allocate((4, 3, 5), BFLOAT16, SBUF, name="x")
    assert (storage.pitch_bytes, storage.nbytes, storage.name) == (30, 120, "x")
    assert layout.pattern.strides_bytes == (30, 10, 2)
    assert storage.line.file == __file__


def test_an_adopted_array_is_written_and_is_the_callers_own_memory(core_v3, random):
    array = random((3, 4))
    storage, pattern = CoreMemory(core_v3, has_values=True).adopt(array, "x", FLOAT32)
    assert storage.written.covers(pattern, 4)
    storage.data[:4] = np.array([1.5], np.float32).view(np.uint8)
    assert array[0, 0] == 1.5


def test_a_number_is_adopted_as_one_element(core_v3):
    storage, pattern = CoreMemory(core_v3, has_values=True).adopt(
        np.array(3.0, np.float32), "x", FLOAT32
    )
    assert (pattern.shape, storage.nbytes) == ((1,), 4)


def test_shape_only_storages_have_sizes_and_no_bytes(memory):
    assert memory.allocate((128, 64), FLOAT32, SBUF)[0].data is None
    assert memory.adopt(np.zeros((2, 2), np.float32), "x", FLOAT32)[0].data is None
