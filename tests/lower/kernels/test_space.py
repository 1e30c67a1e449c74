from trnsim.graph import Graph
from trnsim.lower import groups
from trnsim.lower.kernels.space import dense, spaces


def space_of(shape, other, dims):
    g = Graph()
    x, y = g.input(shape, "float32"), g.input(other, "float32")
    g.outputs = [g.elementwise("add", x, g.broadcast_in_dim(y, shape, dims))]
    (group,) = groups(g)
    return spaces(group)


def lengths(axes):
    return [axis.length for axis in axes]


def test_strides_are_row_major():
    assert dense((2, 3, 4)) == (12, 4, 1)


def test_dimensions_walked_evenly_are_one():
    (space,) = space_of((2, 3, 4, 100), (100,), (3,))
    assert (lengths(space.rows), lengths(space.columns)) == ([24], [100])


def test_a_dimension_that_one_operand_repeats_stays_apart():
    (space,) = space_of((2, 3, 4, 1000), (2, 4, 1000), (0, 2, 3))
    # 4000 columns are cut in two, as so few rows leave most partitions empty.
    assert (lengths(space.rows), lengths(space.columns)) == ([2, 2, 3], [2000])
    assert 0 in space.rows[-1].steps.values()


def test_a_vector_is_spread_and_its_rest_is_a_row():
    main, rest = space_of((1000,), (1000,), (0,))
    assert (lengths(main.rows), lengths(main.columns), main.offset) == ([128], [7], 0)
    assert (lengths(rest.rows), lengths(rest.columns), rest.offset) == ([1], [104], 896)


def test_short_columns_take_part_of_the_rows_where_that_makes_fewer_tiles():
    (space,) = space_of((64, 1024, 16), (64, 16), (0, 2))
    assert (lengths(space.rows), lengths(space.columns)) == ([8, 64], [128, 16])
    (space,) = space_of((64, 1021, 16), (64, 16), (0, 2))  # a prime number is one part
    assert (lengths(space.rows), lengths(space.columns)) == ([64, 1021], [16])
