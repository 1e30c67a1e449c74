"""What is merged with a matmul, and what is not."""

import copy

import pytest

from trnsim.dtypes import FLOAT32
from trnsim.isa import NcMatmul
from trnsim.memory import AccessPattern, Memory, Tile
from trnsim.profile.analysis import tiles, what_if
from trnsim.profile.analysis.examination import Examination
from trnsim.profile.analysis.tiles import part_of_array, short_streams


def packed(kernel, threshold_share=0.5):
    return part_of_array(Examination(kernel.timeline()), threshold_share)


def merged(kernel, threshold_elements=512):
    return short_streams(Examination(kernel.timeline()), threshold_elements)


def add(kernel, product, K, M):
    kernel.do(NcMatmul(product, kernel.load(K, M), kernel.load(K, product.shape[1])))


def columns(tile, start, count):
    row_bytes, step_bytes = tile.pattern.strides_bytes
    part = AccessPattern((tile.shape[0], count), (row_bytes, step_bytes), start * step_bytes)
    return Tile(tile.storage, tile.dtype, part)


@pytest.fixture
def factors(monkeypatch):
    """How many instructions become one, in each group that is merged."""
    found = []
    in_groups = what_if.place_in_groups
    monkeypatch.setattr(
        what_if,
        "place_in_groups",
        lambda *given, **options: found.append(given[1]) or in_groups(*given, **options),
    )
    return found


@pytest.mark.parametrize(("count", "factor"), [(2, 2), (4, 4), (5, 4), (32, 4)])
def test_no_more_columns_are_packed_than_there_are_and_fit(kernel, factors, count, factor):
    moving = kernel.load(128, 512)
    for _ in range(count):
        kernel.matmul(kernel.load(128, 32), moving)
    assert packed(kernel) is not None
    assert factors[0] == factor


@pytest.mark.parametrize(("count", "factor"), [(2, 2), (8, 4), (9, 4)])
def test_rows_are_packed_that_add_to_one_product(kernel, factors, count, factor):
    product = kernel.tile(Memory.PSUM, 128, 512, dtype=FLOAT32)
    for _ in range(count):
        add(kernel, product, 32, 128)
    assert packed(kernel) is not None
    assert factors == [factor] * 3, "matmuls, and the loads of both inputs"


def test_rows_of_different_products_are_not_packed(kernel):
    for _ in range(8):
        add(kernel, kernel.tile(Memory.PSUM, 128, 512, dtype=FLOAT32), 32, 128)
    assert packed(kernel) is None


def test_a_product_that_was_read_is_a_new_one_when_it_is_written_again(kernel):
    product = kernel.tile(Memory.PSUM, 128, 512, dtype=FLOAT32)
    for _ in range(8):
        kernel.do(NcMatmul(product, kernel.load(32, 128), kernel.load(32, 512), accumulate=False))
        kernel.copy(product)
    assert packed(kernel) is None


def test_matmuls_of_several_stationary_tiles_are_not_merged(kernel):
    for _ in range(8):
        kernel.matmul(kernel.load(128, 128), kernel.load(128, 64))
    assert merged(kernel) is None


def test_matmuls_that_wait_for_each_other_are_not_merged(kernel):
    weights, tile = kernel.load(128, 128), kernel.load(128, 64)
    for _ in range(8):
        tile = kernel.copy(kernel.matmul(weights, tile))
    assert merged(kernel) is None


def test_what_feeds_and_reads_a_merged_matmul_grows_and_nothing_else(kernel):
    weights = kernel.load(128, 128)
    for _ in range(8):
        product = kernel.matmul(weights, kernel.load(128, 64))
        kernel.store(kernel.copy(product))
        kernel.copy(kernel.load(128, 64))
    repair = merged(kernel)
    assert repair.figures["around"] == ", with dma_copy, tensor_copy on tiles as large"
    spans = list(kernel.timeline().spans())
    beside = sum(s.busy_until_s - s.start_s for s in spans if s.opcode == "tensor_copy") / 2
    assert repair.device_time_s > beside


def test_what_works_on_larger_tiles_already_stays(kernel, factors):
    weights, moving = kernel.load(128, 128), kernel.load(128, 512)
    product = kernel.tile(Memory.PSUM, 128, 512, dtype=FLOAT32)
    for start in range(0, 512, 64):
        kernel.do(NcMatmul(columns(product, start, 64), weights, columns(moving, start, 64)))
    kernel.store(kernel.copy(product))
    repair = merged(kernel)
    assert factors == [8]
    assert repair.figures["around"] == ""


def test_a_spilled_program_whose_tiles_are_not_known_gets_none(spilling):
    assert spilling.program.is_spilled
    assert short_streams(Examination(spilling), 512) is None
    assert part_of_array(Examination(spilling), 0.5) is None


def test_tiles_are_those_of_the_program_as_it_was_issued(kernel, monkeypatch):
    """A program whose memory was planned anew knows no tiles of its own."""
    stationary = kernel.load(128, 128)
    for _ in range(8):
        kernel.matmul(stationary, kernel.load(128, 64))
    examined = Examination(kernel.timeline())
    issued, planned = examined.program, copy.copy(examined.program)
    planned.as_issued = issued
    known = tiles._input_places
    monkeypatch.setattr(
        tiles, "_input_places", lambda program, n: known(program, n) if program is issued else ()
    )
    monkeypatch.setattr(examined, "program", planned)
    assert short_streams(examined, 512) is not None
