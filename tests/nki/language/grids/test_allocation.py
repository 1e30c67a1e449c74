"""New storage in tiles and blocks."""

import numpy as np
import pytest

import trnsim
from trnsim.errors import EmulatorError, IllegalInstruction, OutOfMemory
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to

LEGAL = {
    "tile_shape": (128, 256),
    "element_shape": (300, 700),
    "buffer": nl.sbuf,
    "dtype": nl.float32,
}


def test_an_allocation_outside_a_kernel_says_where_it_belongs():
    for make, more in ((nl.alloc_tiles, {}), (nl.alloc_blocks, {"block_shape": (1, 1)})):
        with pytest.raises(EmulatorError, match="outside a kernel") as caught:
            make(**LEGAL, **more)
        assert caught.value.line.file == __file__


@pytest.fixture(autouse=True)
def core(request, core_v3):
    """Inside a kernel on NeuronCore-v3, except for a test of what is outside."""
    if "outside" in request.node.name:
        yield None
        return
    with issuing_to(CoreContext(core_v3)) as context:
        yield context


def test_hbm_has_the_logical_extent():
    grid = nl.alloc_tiles(**LEGAL | {"buffer": nl.shared_hbm, "name": "c"})
    assert (grid.shape, grid.element_shape) == ((3, 3), (300, 700))
    assert (grid.data.shape, grid.data.nbytes) == ((300, 700), 300 * 700 * 4)
    assert grid.data.storage.nbytes == 300 * 700 * 4
    assert (grid.data.name, grid.buffer, grid.dtype) == ("c", nl.shared_hbm, nl.float32)


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=str)
def test_on_chip_tiles_follow_each_other_along_the_free_axis(buffer):
    grid = nl.alloc_tiles(
        tile_shape=(128, 64), element_shape=(300, 150), buffer=buffer, dtype=nl.float32
    )
    assert (grid.shape, grid.element_shape) == ((3, 3), (300, 150))
    whole = grid[0, 0].data.base_tensor
    assert whole.shape == (128, 9 * 64)
    for i in range(3):
        for j in range(3):
            data = grid[i, j].data
            assert data.offset == (3 * i + j) * 64
            assert data.shape == (44 if i == 2 else 128, 22 if j == 2 else 64)
            assert data.start_partition == 0
    assert grid[1].data.shape == (128, 150)
    assert not grid[:, 0].is_data_representable
    assert not grid.is_data_representable


def test_slabs_and_tiles_of_three_dimensions_come_in_row_major_order():
    grid = nl.alloc_tiles(
        tile_shape=(32, 2, 8), element_shape=(2, 40, 3, 10), buffer=nl.sbuf, dtype=nl.float32
    )
    assert (grid.shape, grid.tile_shape) == ((2, 2, 2, 2), (32, 2, 8))
    assert grid[0, 0, 0, 0].data.base_tensor.shape == (32, 16 * 16)
    assert [grid[cell].data.offset // 16 for cell in np.ndindex(2, 2, 2, 2)] == list(range(16))
    assert grid[1, 0, 0, 0].data.get_pattern() == [[256, 32], [8, 2], [1, 8]]
    assert grid[1, 1, 1, 1].data.shape == (8, 1, 2)


def test_blocks_change_neither_the_order_of_tiles_nor_the_allocation():
    shapes = LEGAL | {"element_shape": (256, 1024)}
    blocks = nl.alloc_blocks(**shapes, block_shape=(2, 2))
    assert isinstance(blocks, nl.NkiBlockGrid)
    assert (blocks.shape, blocks.block_shape, blocks.tile_shape) == ((1, 2), (2, 2), (128, 256))
    inside = nl.tiles(blocks[0, 1])
    tiles = nl.alloc_tiles(**shapes)
    for m, n in np.ndindex(2, 2):
        assert inside[m, n].data.offset == tiles[m, 2 + n].data.offset
    assert inside[1].data.shape == (128, 512)
    assert inside[0, 0].data.base_tensor.shape == (128, 8 * 256)
    assert not blocks[0, 0].is_data_representable


@pytest.mark.parametrize("make", [nl.alloc_tiles, nl.alloc_blocks])
def test_a_grid_may_have_an_address(make):
    more = {"block_shape": (1, 2)} if make is nl.alloc_blocks else {}
    shapes = {"tile_shape": (32, 64), "element_shape": (32, 128), "dtype": nl.float32} | more
    grid = make(**shapes, buffer=nl.sbuf, address=(32, 4096), name="here")
    tile = nl.tiles(grid)[0, 1].data
    assert (tile.start_partition, tile.layout.box.first_byte, tile.name) == (32, 4352, "here")
    again = nl.ndarray((32, 128), nl.float32, buffer=nl.sbuf, address=(32, 4096))
    again.array[...] = np.arange(32 * 128).reshape(32, 128)
    np.testing.assert_array_equal(nl.tiles(grid)[0, 1].data.array, again.array[:, 64:])


@pytest.mark.parametrize(
    ("change", "python", "message"),
    [
        ({"buffer": "sbuf"}, TypeError, r"buffer='sbuf'; legal: nl\.sbuf, nl\.psum"),
        ({"tile_shape": [128, 256]}, TypeError, r"tile_shape=\[128, 256\]; legal: a tuple"),
        ({"element_shape": (300, 7.0)}, TypeError, r"element_shape=\(300, 7\.0\); legal: a tuple"),
        ({"element_shape": 300}, TypeError, "element_shape=300; legal: a tuple"),
        ({"tile_shape": (128, 0)}, ValueError, "legal: lengths of at least 1"),
        ({"element_shape": (0, 700)}, ValueError, "legal: lengths of at least 1"),
        ({"tile_shape": (128,)}, ValueError, "has rank 1, element_shape"),
        ({"tile_shape": (1, 1, 1)}, ValueError, r"has rank 3, element_shape \[300, 700\]"),
        ({"element_shape": ()}, ValueError, r"element_shape \[\] has rank 0"),
        ({"tile_shape": (256, 64)}, AssertionError, "has 256 partitions; legal on"),
        ({"element_shape": (300, 10**6)}, AssertionError, "needs .* bytes a partition"),
        ({"address": (0, 1 << 20)}, AssertionError, r"address=\(0, 1048576\)"),
        ({"address": 3}, AssertionError, "address"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [nl.alloc_tiles, nl.alloc_blocks])
def test_an_allocation_that_cannot_be_is_refused_by_pythons_errors_too(
    make, change, python, message
):
    more = {}
    if make is nl.alloc_blocks:
        more["block_shape"] = (1,) * len(change.get("tile_shape", (1, 1)))
    with pytest.raises(python, match=message) as caught:
        make(**LEGAL | change, **more)
    assert isinstance(caught.value, EmulatorError)
    assert caught.value.reason.startswith("nl.alloc_")
    assert caught.value.line.file == __file__
    assert caught.value.fix


def test_only_a_lack_of_room_is_out_of_memory():
    with pytest.raises(OutOfMemory):
        nl.alloc_tiles(**LEGAL | {"element_shape": (300, 10**6)})
    with pytest.raises(IllegalInstruction):
        nl.alloc_tiles(**LEGAL | {"tile_shape": (256, 64)})


def test_a_block_of_another_rank_than_a_tile_is_refused():
    with pytest.raises(ValueError, match=r"nl\.alloc_blocks: block_shape=\(2,\) has rank 1"):
        nl.alloc_blocks(**LEGAL, block_shape=(2,))


def test_a_block_that_crosses_tiles_is_filled_tile_by_tile():
    @jit
    def kernel(x):
        out = nl.alloc_tiles(
            tile_shape=(64, 32), element_shape=x.shape, buffer=nl.shared_hbm, dtype=x.dtype
        )
        source = nl.tiles(x, tile_shape=(64, 32))
        tiles = nl.alloc_tiles(
            tile_shape=(64, 32), element_shape=x.shape, buffer=nl.sbuf, dtype=x.dtype
        )
        for i in range(tiles.shape[0]):
            nisa.dma_copy(dst=tiles[i].data, src=source[i].data)
            for j in range(tiles.shape[1]):
                nisa.dma_copy(dst=out[i, j].data, src=tiles[i, j].data)
        return out.data

    values = np.random.default_rng(0).standard_normal((150, 100)).astype(np.float32)
    np.testing.assert_array_equal(trnsim.run(kernel, values).outputs, values)
