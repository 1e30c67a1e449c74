"""A result over other elements of its operand is undefined; in place and side by side are not."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import UndefinedBehavior
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

A = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)


@nki.jit
def running(a, what):
    tile = nl.load(a)
    other = nl.ndarray(a.shape, a.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(other, tile)
    what(tile, other)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def narrowing(tile, _):
    narrow = tile.view(nl.bfloat16)
    nisa.tensor_copy(narrow[:, 0:64], tile)


UNDEFINED = {
    "to the right": lambda t, _: nisa.tensor_copy(t[:, 1:64], t[:, 0:63]),
    "to the left": lambda t, _: nisa.tensor_copy(t[:, 0:63], t[:, 1:64]),
    "scalar engine": lambda t, _: nisa.tensor_copy(t[:, 0:8], t[:, 4:12], nisa.engine.scalar),
    "reversed": lambda t, _: nisa.tensor_copy(t[:, 0:64:2], t[:, 0:32]),
    "narrowed": narrowing,
    "elementwise": lambda t, _: nisa.tensor_tensor(t[:, 1:64], t[:, 1:64], t[:, 0:63], nl.add),
    "a number": lambda t, _: nisa.tensor_scalar(t[:, 1:64], t[:, 0:63], nl.add, 1.0),
    "a function": lambda t, _: nisa.activation(t[:, 0:32], nl.exp, t[:, 16:48]),
    "dma on chip": lambda t, _: nisa.dma_copy(t[:, 1:64], t[:, 0:63]),
    "dma in hbm": lambda _, h: nisa.dma_copy(h[1:32], h[0:31]),
    "in place, transposed": lambda t, _: nisa.nc_transpose(
        t[:, 0:32], t[:, 0:32], nisa.engine.vector
    ),
}
DEFINED = {
    "in place": lambda t, h: (nisa.tensor_copy(t, t), nisa.dma_copy(h, h)),
    "in place by another view": lambda t, _: nisa.tensor_copy(
        t.reshape((32, 8, 8)), t[:, 0:64].reshape((32, 8, 8))
    ),
    "in place by another view, with gaps": lambda t, _: nisa.tensor_copy(
        t[:, 0:64:2].reshape_dim(1, (8, 4)), t[:, 0:64:2]
    ),
    "in place, cast": lambda t, _: nisa.tensor_copy(t.view(nl.int32), t),
    "side by side": lambda t, _: nisa.tensor_copy(t[:, 0:32], t[:, 32:64]),
    "even and odd": lambda t, _: nisa.tensor_copy(t[:, 0:64:2], t[:, 1:64:2]),
    "other rows": lambda _, h: nisa.dma_copy(h[0:16], h[16:32]),
    "its own column": lambda t, _: nisa.tensor_scalar(t, t, nl.add, t[:, 0:1]),
    "reduced": lambda t, _: nisa.tensor_reduce(t[:, 0:1], nl.add, t, axis=1),
}


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("what", UNDEFINED)
def test_a_shifted_copy_onto_itself_is_undefined(what, numerics):
    with pytest.raises(UndefinedBehavior, match="over other elements of") as caught:
        trnsim.run(running, A, UNDEFINED[what], target="trn2", numerics=numerics)
    error = caught.value
    assert f"allocated at {__file__}:" in error.reason
    assert error.reason.endswith("AWS does not say which of them are read first")
    assert "copy it back, or write in place" in error.fix
    assert error.line.file == __file__


@pytest.mark.parametrize("what", DEFINED)
def test_in_place_and_side_by_side_are_defined(what):
    assert trnsim.run(running, A, DEFINED[what], target="trn2").outputs.shape == A.shape
