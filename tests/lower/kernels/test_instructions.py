"""Instructions on tiles, and what they repeat."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.lower.kernels.instructions import binary, column, copied, is_number, shape_of, widened
from trnsim.lower.kernels.tiles import load, new, store
from trnsim.nki import language as nl

OPERATORS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "power": np.power}


def computed(name, shapes, chip):
    """The result of an operator on tiles of shapes, or a number for None, and what it should be."""
    rng = np.random.default_rng(0)
    given = [2.5 if one is None else rng.uniform(1, 2, one).astype(np.float32) for one in shapes]
    arrays = [one for one in given if isinstance(one, np.ndarray)]

    @nki.jit
    def kernel(*tensors):
        inputs = iter(tensors)
        tiles = [load(next(inputs)) if isinstance(one, np.ndarray) else one for one in given]
        made = new(shape_of(tiles))
        binary(made, getattr(nl, name), *tiles)
        out = nl.ndarray(made.shape, dtype=made.dtype, buffer=nl.shared_hbm)
        store(out, made)
        return out

    found = trnsim.run(kernel, *arrays, target=chip).outputs
    return found, OPERATORS[name](*given)


@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((100, 3, 40), (100, 3, 40)),
        ((100, 3, 40), None),
        (None, (100, 3, 40)),
        ((100, 3, 40), (100, 1, 1)),
        ((100, 1, 1), (100, 3, 40)),
        ((100, 3, 1), (100, 1, 40)),
        ((100, 40), (100, 1)),
        ((100, 1), (100, 1)),
    ],
)
def test_an_operator_repeats_what_has_length_one_on_either_side(name, shapes, chip):
    found, expected = computed(name, shapes, chip)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_shapes_of_tiles_and_numbers():
    @nki.jit
    def kernel(x):
        tile = load(x)
        assert shape_of([tile, 2.0]) == (4, 3)
        assert widened(tile[:, :1], (4, 3)).shape == (4, 3)
        assert widened(tile, (4, 3)).shape == (4, 3)
        assert column(2.0) == 2.0
        short = copied(tile[:, :1], nl.bfloat16)
        assert (short.dtype, column(short).dtype) == (nl.bfloat16, nl.float32)
        assert column(short).shape == (4, 1)
        assert is_number(1)
        assert not is_number(tile)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        store(out, tile)
        return out

    trnsim.run(kernel, np.ones((4, 3), np.float32))
