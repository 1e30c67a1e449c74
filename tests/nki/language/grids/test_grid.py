"""Views of tensors in coordinates of tiles and of blocks."""

import copy

import grid_cases
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to

SEEDS = range(300)


@pytest.fixture
def core(core_v3):
    """Inside a kernel on NeuronCore-v3."""
    with issuing_to(CoreContext(core_v3)) as context:
        yield context


@pytest.fixture
def matrix(core):
    """Numbers in HBM, [512, 1024]."""
    del core
    return numbered((512, 1024), nl.shared_hbm)


def numbered(shape, buffer):
    tensor = nl.ndarray(shape, nl.int32, buffer=buffer, name="x")
    tensor.array[...] = np.arange(tensor.size).reshape(shape)
    return tensor


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("first", SEEDS[::50])
def test_random_grids_have_the_elements_that_numpy_says(first):
    for seed in range(first, first + 50):
        grid_cases.check(seed)


def test_the_pages_grid_has_four_by_four_tiles(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    assert isinstance(grid, nl.NkiTileGrid)
    assert isinstance(grid, nl.NkiGrid)
    assert (grid.shape, grid.tile_shape) == ((4, 4), (128, 256))
    assert (grid.element_shape, grid.index_step_elements) == ((512, 1024), (128, 256))
    assert (grid.dtype, grid.buffer) == (nl.int32, nl.shared_hbm)
    assert not grid.is_remainder
    assert not hasattr(grid, "block_shape")
    one = grid[1, 2]
    assert isinstance(one, nl.NkiTileGrid)
    assert (one.shape, one.element_shape, one.index_step_elements) == ((), (128, 256), ())
    np.testing.assert_array_equal(one.data.array, matrix.array[128:256, 512:768])


def test_the_pages_blocks_group_two_by_two_tiles(matrix):
    grid = nl.blocks(matrix, tile_shape=(128, 256), block_shape=(2, 2))
    assert isinstance(grid, nl.NkiBlockGrid)
    assert isinstance(grid, nl.NkiGrid)
    assert (grid.shape, grid.tile_shape, grid.block_shape) == ((2, 2), (128, 256), (2, 2))
    assert grid.index_step_elements == (256, 512)
    one = grid[1, 0]
    assert isinstance(one, nl.NkiBlockGrid)
    assert (one.shape, one.element_shape, one.block_shape) == ((), (256, 512), (2, 2))
    np.testing.assert_array_equal(one.data.array, matrix.array[256:, :512])
    inside = nl.tiles(one)
    assert (type(inside), inside.shape) == (nl.NkiTileGrid, (2, 2))
    np.testing.assert_array_equal(inside[0, 1].data.array, matrix.array[256:384, 256:512])


def test_a_row_and_a_column_of_tiles_are_grids(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    row, column = grid[3, :], grid[:, 1]
    assert (row.shape, row.element_shape) == ((4,), (128, 1024))
    assert (column.shape, column.element_shape) == ((4,), (512, 256))
    assert grid[3].shape == grid[3, ...].shape == (4,)
    assert grid[..., 1].shape == (4,)
    np.testing.assert_array_equal(row[1].data.array, grid[3, 1].data.array)
    np.testing.assert_array_equal(column.data.array, matrix.array[:, 256:512])
    assert grid[nl.ds(1, 2)].shape == (2, 4)
    np.testing.assert_array_equal(grid[-1, nl.ds(1, 2)].data.array, matrix.array[384:, 256:768])


def test_edges_cut_the_last_tiles_and_blocks(core):
    del core
    source = numbered((300, 700), nl.shared_hbm)
    grid = nl.tiles(source, tile_shape=(128, 256))
    assert (grid.shape, grid.element_shape, grid.is_remainder) == ((3, 3), (300, 700), True)
    assert (grid[2, 2].element_shape, grid[2, 2].tile_shape) == ((44, 188), (128, 256))
    assert grid[2, 2].is_remainder
    assert not grid[1, 1].is_remainder
    np.testing.assert_array_equal(grid[2, 2].data.array, source.array[256:, 512:])
    blocks = nl.blocks(source, tile_shape=(128, 256), block_shape=(2, 2))
    assert (blocks.shape, blocks[1, 1].element_shape) == ((2, 2), (44, 188))
    assert not blocks[0, 0].is_remainder
    assert blocks[0, 1].is_remainder
    assert nl.tiles(blocks[0, 1]).shape == (2, 1)


def test_untiled_dimensions_lead_and_are_indexed_slab_by_slab(core):
    del core
    source = numbered((3, 200, 300), nl.shared_hbm)
    grid = nl.tiles(source, tile_shape=(128, 256))
    assert (grid.shape, grid.tile_shape) == ((3, 2, 2), (128, 256))
    assert grid.index_step_elements == (1, 128, 256)
    one = grid[2, 1, 0]
    assert one.element_shape == (72, 256)
    np.testing.assert_array_equal(one.data.array, source.array[2, 128:, :256])
    slab = nl.blocks(grid[1], block_shape=(2, 1))
    assert (slab.shape, slab.element_shape) == ((1, 2), (200, 300))
    np.testing.assert_array_equal(slab[0, 1].data.array, source.array[1, :, 256:])


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=str)
def test_tensors_on_chip_are_tiled_over_partitions_too(buffer, core):
    del core
    source = numbered((128, 96), buffer)
    grid = nl.tiles(source, tile_shape=(64, 40))
    assert (grid.shape, grid.buffer) == ((2, 3), buffer)
    data = grid[1, 2].data
    assert (data.shape, data.start_partition) == ((64, 16), 64)
    np.testing.assert_array_equal(data.array, source.array[64:, 80:])


def test_views_have_no_storage_and_issue_nothing(matrix, core):
    for grid in (
        nl.tiles(matrix, tile_shape=(128, 256)),
        nl.blocks(matrix, tile_shape=(128, 256), block_shape=(2, 2)),
    ):
        assert grid[0, 0].data.storage is matrix.storage
        assert nl.tiles(grid[0, 0]).data.storage is matrix.storage
    assert len(core.program) == 0


def test_a_grid_is_tiled_again(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    again = nl.tiles(grid[1:3, 1])
    assert (again.shape, again.element_shape) == ((2, 1), (256, 256))
    finer = nl.tiles(grid[1:3, 1], tile_shape=(64, 64))
    assert finer.shape == (4, 4)
    np.testing.assert_array_equal(finer[3, 0].data.array, matrix.array[320:384, 256:320])
    blocks = nl.blocks(finer, block_shape=(1, 2))
    assert nl.blocks(blocks, block_shape=(4, 1)).shape == (1, 4)


def test_tiles_with_a_step_are_no_single_access_pattern(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    other = grid[::2, 0]
    assert (other.shape, other.element_shape) == ((2,), (256, 256))
    assert other.index_step_elements == (256,)
    assert not other.is_data_representable
    with pytest.raises(IllegalInstruction, match=r"its elements \[256, 256\] are no single") as e:
        _ = other.data
    assert "is_data_representable" in e.value.reason
    assert "select one tile of that dimension" in e.value.fix
    assert e.value.line.file == __file__
    np.testing.assert_array_equal(nl.tiles(other)[1, 0].data.array, matrix.array[256:384, :256])


def test_blocks_with_a_step_between_them_are_not_tiles(core):
    del core
    blocks = nl.blocks(numbered((24, 8), nl.hbm), tile_shape=(4, 4), block_shape=(2, 1))
    with pytest.raises(ValueError, match="blocks do not follow each other") as caught:
        nl.tiles(blocks[::2])
    assert "select one block" in caught.value.fix
    assert nl.tiles(blocks[1:]).shape == (4, 2)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((4, 0), r"index 4 of dimension 0 of a grid \[4, 4\] of tiles.*legal: 0 to 3"),
        ((0, -5), "index -5 of dimension 1"),
        ((slice(2, 2), 0), "index 2:2 of dimension 0.*not empty"),
        ((slice(0, 9), 0), "index 0:9 of dimension 0"),
        ((slice(3, 0, -1), 0), "index 3:0:-1 of dimension 0"),
        (nl.ds(0, 0), r"index nl.ds\(0, 0\) of dimension 0"),
        ((0, 0, 0), "3 indices for a grid"),
        ((..., ...), "0 indices for a grid"),
        (("a", 0), "an index of type str"),
        ((1.5, 0), "an index of type float"),
    ],
    ids=str,
)
def test_an_index_that_a_grid_lacks_is_an_index_error(matrix, key, message):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    with pytest.raises(IndexError, match=message) as caught:
        _ = grid[key]
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.line.file == __file__
    assert caught.value.fix


def test_a_grid_of_rank_0_has_no_coordinate_left(matrix):
    one = nl.tiles(matrix, tile_shape=(128, 256))[0, 0]
    assert one[...].element_shape == one[()].element_shape == (128, 256)
    for key in (0, slice(None), (0, 0)):
        with pytest.raises(IndexError, match=r"of a grid \[\] .* no coordinate left") as caught:
            _ = one[key]
        assert "grid.data" in caught.value.fix
        assert caught.value.line.file == __file__


def test_an_index_of_the_device_is_not_modelled(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    register = nisa.register_alloc(1)
    for key in (register, nl.ds(register, 1)):
        with pytest.raises(NotModelled, match="known when the kernel runs") as caught:
            _ = grid[key, 0]
        assert "scalar_offset" in caught.value.fix
    with pytest.raises(IndexError, match="an index of type NkiTensor"):
        _ = grid[matrix, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nl.tiles, "tile_shape=None; legal: a tuple"),
        (lambda x: nl.tiles(x.shape, tile_shape=(2, 2)), "of tuple; legal: a tensor or"),
        (lambda x: nl.tiles(x, tile_shape=[2, 2]), r"tile_shape=\[2, 2\]; legal: a tuple"),
        (lambda x: nl.blocks(x, tile_shape=(2, 2), block_shape=2), "block_shape=2; legal"),
        (nl.NkiGrid, r"NkiGrid\(\.\.\.\); legal: a view that nl\.tiles"),
        (lambda x: nl.NkiTileGrid(source=x), r"NkiTileGrid\(\.\.\.\); legal"),
        (lambda x: len(nl.tiles(x, tile_shape=(2, 2))), r"measured by len\(\)"),
        (lambda x: list(nl.tiles(x, tile_shape=(2, 2))), "is looped over; legal: an index"),
    ],
)
def test_what_a_grid_is_not_made_from_is_a_type_error(matrix, make, message):
    with pytest.raises(TypeError, match=message) as caught:
        make(matrix)
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.line.file == __file__
    assert caught.value.fix


@pytest.mark.parametrize(
    ("shape", "tile", "message"),
    [
        ((512, 1024), (), "tile_shape=.. has rank 0"),
        ((512, 1024), (0, 256), "legal: lengths of at least 1"),
        ((512, 1024), (1, 1, 1), "has rank 3"),
        ((512,), (128, 1), r"x HBM \[512\] int32 \[512\] has rank 1"),
    ],
    ids=str,
)
def test_a_shape_that_does_not_tile_is_a_value_error(core, shape, tile, message):
    del core
    with pytest.raises(ValueError, match=message) as caught:
        nl.tiles(numbered(shape, nl.hbm), tile_shape=tile)
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.line.file == __file__


def test_a_grid_of_0_extent_is_refused_at_the_line():
    @jit
    def kernel(x):
        nl.tiles(x, tile_shape=(2, 2))
        return x

    with pytest.raises(ValueError, match=r"x HBM \[0, 4\].*a dimension of 0 elements") as caught:
        trnsim.run(kernel, np.zeros((0, 4), np.float32))
    assert caught.value.line.file == __file__


def test_blocks_need_as_many_dimensions_as_tiles(matrix):
    for block, message in (((2,), "has rank 1; legal: rank 2"), ((2, 0), "at least 1")):
        with pytest.raises(ValueError, match=message):
            nl.blocks(matrix, tile_shape=(128, 256), block_shape=block)


def test_what_the_public_pages_leave_open_is_not_modelled(core):
    del core
    on_chip = numbered((4, 6, 8), nl.sbuf)
    with pytest.raises(NotModelled, match="leaves the partitions of x SBUF") as caught:
        nl.tiles(on_chip, tile_shape=(3, 4))
    assert caught.value.fix == "tile them too: tile_shape=(4, 3, 4)"
    rows = numbered((16, 4), nl.hbm).vector_select(0, numbered((4, 1), nl.sbuf))
    with pytest.raises(NotModelled, match="whose rows or columns an index tensor picks"):
        nl.tiles(rows, tile_shape=(2, 2))


def test_a_moved_tensor_keeps_its_index_in_tiles(core):
    del core
    moved = numbered((4, 8, 8), nl.hbm).select(0, nisa.register_alloc(2))
    data = nl.tiles(moved, tile_shape=(4, 4))[1, 0].data
    assert data.index is moved.index
    assert data.pattern == moved[4:, :4].pattern


def test_instructions_ask_for_the_tensor_of_a_grid(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    tile = nl.ndarray((128, 256), nl.int32)
    for use in (
        lambda: nisa.dma_copy(dst=tile, src=grid[0, 0]),
        lambda: nl.load(grid[0, 0]),
        lambda: nl.add(tile, grid[0, 0]),
    ):
        with pytest.raises(IllegalInstruction, match="NkiTileGrid; legal") as caught:
            use()
        assert caught.value.fix == "pass the tensor of the grid: grid[i, j].data"
    with pytest.raises(TypeError, match="is assigned to, with the index"):
        grid[0, 0] = tile
    with pytest.raises(TypeError, match="is deleted from, with the index"):
        del grid[0, 0]


def test_a_name_that_grids_lack_is_explained(matrix):
    grid = nl.tiles(matrix, tile_shape=(128, 256))
    with pytest.raises(AttributeError, match="has no attribute 'reshape'") as caught:
        _ = grid.reshape
    assert caught.value.fix == "views are of tensors: grid.data.reshape"
    assert getattr(grid, "size2", None) is None
    twin = copy.deepcopy(grid)
    assert (bool(twin), twin.shape, twin.data.storage) == (True, (4, 4), matrix.storage)
    assert str(grid) == repr(grid)


@pytest.mark.parametrize("version", ["0.6", "0.2"])
def test_versions_without_grids_refuse_their_names_and_a_tensors_data(version):
    tiles = nl.tiles

    @jit
    def by_tiles(x):
        tiles(x, tile_shape=(2, 2))

    @jit
    def by_data(x):
        assert not hasattr(x, "data")
        return x.data

    x = np.zeros((4, 4), np.float32)
    with pytest.raises(IllegalInstruction, match=rf"nl\.tiles under NKI {version}") as caught:
        trnsim.run(by_tiles, x, nki=version)
    assert caught.value.fix.startswith("slice the tensor")
    with pytest.raises(AttributeError, match=rf"data of x .* under NKI {version}, where") as caught:
        trnsim.run(by_data, x, nki=version)
    assert caught.value.line.file == __file__
    assert caught.value.reason.endswith("legal: from NKI 0.7 on")


def test_a_kernel_returns_tensors_and_no_grids():
    @jit
    def kernel(x):
        return nl.tiles(x, tile_shape=(2, 2))

    with pytest.raises(IllegalInstruction, match="returned a NkiTileGrid"):
        trnsim.run(kernel, np.zeros((4, 4), np.float32))


@jit
def copied_by_tiles(source):
    """The page's example: through SBUF tile by tile, of which each may be a tensor or a grid."""
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    sources = nl.tiles(source, tile_shape=(128, 256))
    outs = nl.tiles(out, tile_shape=(128, 256))
    for i in range(sources.shape[0]):
        for j in range(sources.shape[1]):
            tile = nl.ndarray(sources[i, j].element_shape, dtype=source.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile.data, src=sources[i, j].data)
            nisa.dma_copy(dst=outs[i, j].data, src=tile.data)
    return out


@jit
def copied_by_blocks(source):
    """The page's example for blocks: a block in SBUF is a grid of its own, over a tensor."""
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    shapes = {"tile_shape": (128, 256), "block_shape": (2, 2)}
    sources, outs = nl.blocks(source, **shapes), nl.blocks(out, **shapes)
    for i in range(sources.shape[0]):
        for j in range(sources.shape[1]):
            chosen = sources[i, j]
            block = nl.blocks(
                nl.ndarray(chosen.element_shape, dtype=source.dtype, buffer=nl.sbuf),
                tile_shape=chosen.tile_shape,
                block_shape=chosen.block_shape,
            )
            nisa.dma_copy(dst=block.data, src=chosen.data)
            tiles, targets = nl.tiles(block), nl.tiles(outs[i, j])
            for m in range(tiles.shape[0]):
                for n in range(tiles.shape[1]):
                    nisa.dma_copy(dst=targets[m, n].data, src=tiles[m, n].data)
    return out


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (copied_by_tiles, (256, 512)),
        (copied_by_tiles, (300, 700)),
        (copied_by_blocks, (128, 1024)),
        (copied_by_blocks, (100, 1300)),
    ],
)
def test_the_pages_examples_copy(kernel, shape):
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(trnsim.run(kernel, values).outputs, values)


@pytest.mark.parametrize("compute", [lambda g: g + 1, lambda g: 2 * g, lambda g: g @ g])
def test_a_grid_has_no_operators(matrix, compute):
    with pytest.raises(TypeError, match=r"a grid .* is used with `.`; legal: an index") as caught:
        compute(nl.tiles(matrix, tile_shape=(128, 256)))
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.fix.endswith("of tiles: grid[i, j].data")
