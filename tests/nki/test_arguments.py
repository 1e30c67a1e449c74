"""Whole numbers, sequences of them, and tensors: what views and functions are given."""

import inspect

import numpy as np
import pytest

from trnsim.errors import BadInput, IllegalInstruction
from trnsim.isa import VirtualRegister
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.arguments import boolean, check_tensor, integers, lengths

pytestmark = pytest.mark.usefixtures("on_core")


def test_whole_numbers_of_every_kind_are_plain_integers():
    assert integers("slice", 1, np.int64(2), True) == (1, 2, 1)
    assert lengths("reshape", [2, np.uint8(3)]) == (2, 3)
    assert lengths("reshape", (n for n in (1, 2))) == (1, 2)


@pytest.mark.parametrize("wrong", [None, "x", 2.5, 2.0, VirtualRegister(1), (1,)])
def test_a_view_takes_nothing_else(wrong):
    with pytest.raises(IllegalInstruction, match="whole numbers known when the kernel is") as found:
        integers("slice", 0, wrong)
    assert found.value.fix
    assert found.value.source == "nki.language.NkiTensor"


@pytest.mark.parametrize("wrong", [None, 7, 2.5])
def test_a_shape_is_a_sequence(wrong):
    with pytest.raises(IllegalInstruction, match="legal: a sequence of whole numbers"):
        lengths("reshape", wrong)


@pytest.mark.parametrize("wrong", [None, 7, "x", np.zeros(3)])
def test_a_tensor_is_one_of_the_kernels(wrong):
    made = nl.ndarray((4, 4), nl.float32)
    assert check_tensor("nl.load", made) is made
    with pytest.raises(IllegalInstruction, match=r"nl\.load of .*; legal: a tensor"):
        check_tensor("nl.load", wrong)


TILE = {
    "slice": lambda t: t.slice("x", 2, 3),
    "select": lambda t: t.select(1, 2.5),
    "permute": lambda t: t.permute(2.5),
    "permute of nothing": lambda t: t.permute(()),
    "broadcast": lambda t: t.broadcast(1, None),
    "expand_dim": lambda t: t.expand_dim("x"),
    "squeeze_dim": lambda t: t.squeeze_dim(None),
    "reshape_dim": lambda t: t.reshape_dim(1, None),
    "reshape_dim of no axis": lambda t: t.reshape_dim(2.5, (2, 2)),
    "flatten_dims": lambda t: t.flatten_dims(1, "x"),
    "reshape": lambda t: t.reshape(None),
    "ap without a pattern": lambda t: t.ap(2.5),
    "ap of nothing": lambda t: t.ap([]),
    "ap of a stride alone": lambda t: t.ap([[1]]),
    "ap of words": lambda t: t.ap([["x", 1]]),
    "ap of no elements": lambda t: t.ap([[4, 4], [1, 0]]),
    "ap at half an element": lambda t: t.ap([[4, 4], [1, 4]], offset=0.5),
    "ap along a word": lambda t: t.ap([[4, 4], [1, 4]], indirect_dim="x"),
    "ap along half a dimension": lambda t: t.ap([[4, 4], [1, 4]], indirect_dim=0.5),
    "a shape that is an array of one number": lambda t: t.reshape(np.array(1)),
    "rows of an array of dimensions": lambda t: t.vector_select(np.arange(2), t),
    "sizes that are an array": lambda t: t.rearrange("abc", "abc", np.arange(2)),
    "an index of words": lambda t: t["x":],
    "nl.ds of a fraction": lambda t: t[:, nl.ds(0.5, 2)],
}


@pytest.mark.parametrize("name", TILE)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.hbm])
def test_a_view_of_anything_else_is_refused_by_name(name, buffer):
    with pytest.raises(IllegalInstruction) as found:
        TILE[name](nl.ndarray((4, 2, 2), nl.float32, buffer=buffer))
    assert found.value.fix


CALLS = {
    "a shape that is a number": lambda _: nl.ndarray(7, nl.float32),
    "a shape of words": lambda _: nl.ndarray("x", nl.float32),
    "a shape with a fraction": lambda _: nl.ndarray((2.5, 2), nl.float32),
    "a shape with None": lambda _: nl.ndarray((None, 2), nl.float32),
    "an address of one number": lambda _: nl.ndarray((4, 4), nl.float32, address=(0,)),
    "an address of three": lambda _: nl.ndarray((4, 4), nl.float32, address=(0, 0, 0)),
    "an address of words": lambda _: nl.ndarray((4, 4), nl.float32, address="xy"),
    "nl.load of nothing": lambda _: nl.load(None),
    "nl.load_transpose2d of nothing": lambda _: nl.load_transpose2d(None),
    "nl.expand_dims of nothing": lambda _: nl.expand_dims(None, 1),
    "nl.gather_flattened of nothing": lambda t: nl.gather_flattened(t, None),
    "nl.gather_flattened along an array": lambda t: nl.gather_flattened(t, t, np.arange(2)),
    "nl.sum along an array of one number": lambda t: nl.sum(t, axis=np.array(1.0)),
    "nl.matmul of a vector": lambda t: nl.matmul(nl.zeros((4,), nl.float32), t, transpose_x=True),
    "a vector seen in half elements": lambda _: nl.zeros((4,), nl.float32).view(nl.int16),
    "an iota along an array of one number": lambda t: nisa.iota(t, np.array(1.0), 0),
    "the identity matrix of no row": lambda t: nl.shared_identity_matrix(-1, dst=t),
    "the identity matrix in a larger tile": lambda t: nl.shared_identity_matrix(3, dst=t),
    "nl.where of nothing": lambda _: nl.where(None, 1, 2),
    "nl.broadcast_to nothing": lambda t: nl.broadcast_to(t, None),
    "nl.sum along nothing": lambda t: nl.sum(t, axis=None),
    "nl.sum along a word": lambda t: nl.sum(t, axis="x"),
    "nl.zeros_like nothing": lambda _: nl.zeros_like("add"),
    "nl.empty_like nothing": lambda _: nl.empty_like(None),
    "nl.shared_identity_matrix of a tile": nl.shared_identity_matrix,
    "nl.shared_identity_matrix in a list": lambda _: nl.shared_identity_matrix(4, dst=(1, 2)),
    "nl.par_dim of a word": lambda _: nl.par_dim("add"),
    "nl.var without an axis": nl.var,
    "a range over a tile": nl.affine_range,
    "a topk of a tile": lambda t: nisa.topk(t, t, t, t),
    "nonzero of a dtype": lambda t: nisa.nonzero_with_count(t, nl.int32),
    "an MX matmul of dicts": lambda t: nisa.nc_matmul_mx(t, {}, [], t, t),
    "a loop over nothing": lambda _: list(nl.dynamic_range(None)),
    "a loop by a fraction": lambda _: list(nl.dynamic_range(0, 4, 0.5)),
    "a loop without a body": lambda _: nl.fori_loop(0, 2, None),
    "a while without a body": lambda _: nl.while_loop(VirtualRegister(1), None),
    "an engine by a wrong number": lambda t: nisa.tensor_copy(t, t, engine=99),
    "a memset of a word": lambda t: nisa.memset(t, value="add"),
    "a memset of a list": lambda t: nisa.memset(t, value=[1, 2]),
    "a dst that is a list": lambda t: nisa.tensor_copy([1, 2], t),
    "a dst that is a list, and a register": lambda t: nisa.tensor_copy(
        [1, 2], t[:, nl.ds(VirtualRegister(1), 2)]
    ),
    "an operand that is a list": lambda t: nisa.tensor_scalar(t, t, nl.add, [[1, 2]]),
    "an engine that is None": lambda t: nisa.dma_copy(t, t, engine=None),
}


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(BadInput, match=r"nl\.shared_constant\('gone\.npy'\): .*No such file"):
        nl.shared_constant("gone.npy")


@pytest.mark.parametrize("buffer", [[1], {}, None, 3, "sram"])
def test_a_buffer_is_one_of_the_four(buffer):
    with pytest.raises(BadInput, match=r"legal: nl\.sbuf"):
        nl.ndarray((4, 4), nl.float32, buffer=buffer)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_anything_else_is_refused_by_name(name):
    tile = nl.zeros((4, 4), nl.float32)
    with pytest.raises(IllegalInstruction) as found:
        CALLS[name](tile)
    assert found.value.fix
    assert found.value.line.file == __file__


@pytest.mark.parametrize("wrong", [None, "x", 2, 0.5, (1,), np.zeros(3)], ids=str)
def test_a_flag_is_true_or_false(wrong):
    assert [boolean("f", flag) for flag in (True, np.False_, 1, 0)] == [True, False, True, False]
    with pytest.raises(IllegalInstruction, match="legal: True or False"):
        boolean("f", wrong)


NO_FUNCTIONS = {
    **dict.fromkeys(("range", "static_range", "sequential_range"), "Python's range"),
    **dict.fromkeys(("affine_range", "ds"), "classes, which Python calls"),
    "dynamic_range": "the newest NKI has none",
    "no_reorder": "a context manager",
    "program_ndim": "it takes nothing",
}
"""Names of `nl` whose wrong calls are Python's to refuse."""
FUNCTIONS = sorted(
    name
    for name in dir(nl)
    if inspect.isfunction(getattr(nl, name, None))
    and name not in NO_FUNCTIONS
    and not name.startswith("__")
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_keyword_is_refused_with_the_call_to_write(name):
    with pytest.raises(IllegalInstruction, match=rf"nl\.{name}: ") as error:
        getattr(nl, name)(no_such_keyword=1)
    assert f"call it as nl.{name}(" in error.value.fix
    assert error.value.line.file == __file__
