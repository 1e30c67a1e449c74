"""What a view may not do to an indirect tensor. Plain views: tests/nki/test_tensor.py."""

import pytest

from trnsim.errors import IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.nki import language as nl


@pytest.fixture
def rows(on_core):
    """Rows of a [4, 6, 2] tensor in HBM, picked by an index tensor."""
    del on_core
    tensor = nl.ndarray((4, 6, 2), nl.float32, buffer=nl.hbm)
    return tensor.vector_select(0, nl.ndarray((3, 1), nl.uint32))


REFUSED = {
    "slice": lambda t: t.slice(0, 0, 2),
    "select": lambda t: t.select(0, 1),
    "permute": lambda t: t.permute((1, 0, 2)),
    "reshape_dim": lambda t: t.reshape_dim(0, (3, 1)),
    "flatten_dims": lambda t: t.flatten_dims(0, 1),
    "squeeze_dim": lambda t: t.squeeze_dim(-3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rows_that_an_index_tensor_picks_stay_as_they_are(rows, name):
    with pytest.raises(IllegalInstruction, match=f"{name} on dimension -?[03] of") as caught:
        REFUSED[name](rows)
    assert caught.value.fix


def test_other_dimensions_of_picked_rows_are_free(rows):
    assert rows.permute((0, 2, 1)).shape == (3, 2, 6)
    assert rows.slice(1, 2, 4).shape == (3, 2, 2)
    assert rows.flatten_dims(1, 2).is_indirect()


@pytest.mark.usefixtures("on_core")
def test_a_view_as_another_dtype_comes_before_the_dynamic_index():
    tensor = nl.ndarray((4, 6), nl.float32, buffer=nl.hbm)
    with pytest.raises(IllegalInstruction, match="whose place an index gives"):
        tensor.select(0, VirtualRegister(1)).view(nl.int32)


@pytest.mark.usefixtures("on_core")
def test_a_tensor_is_compared_with_none_and_is_a_key():
    tensor = nl.ndarray((4, 6), nl.float32)
    assert tensor != None  # noqa: E711  how public kernels write it
    assert {tensor: 1}[tensor] == 1


@pytest.mark.usefixtures("on_core")
def test_a_whole_reshape_is_a_new_base_for_access_patterns():
    tensor = nl.ndarray((2, 3, 4), nl.float32, buffer=nl.hbm).reshape((6, 4))
    found = tensor.ap([[4, 1], [1, 4]], scalar_offset=VirtualRegister(5), indirect_dim=0)
    assert (found.index.stride_bytes, found.index.limit) == (16, 6)
