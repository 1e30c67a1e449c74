"""New tensors: of a value, like another, of constants, of random numbers."""

from functools import partial

import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.nki import jit
from trnsim.nki import language as nl


def filled(make, target="trn3"):
    """The values of a tensor that a kernel makes."""

    @jit
    def kernel():
        tensor = make()
        out = nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(tensor) if nl.is_psum(tensor.buffer) else tensor)
        return out

    return trnsim.run(kernel, target=target).outputs


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm], ids=str)
@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda buffer: nl.zeros((4, 8), nl.float32, buffer=buffer), 0),
        (lambda buffer: nl.ones((4, 8), nl.bfloat16, buffer=buffer), 1),
        (lambda buffer: nl.full((4, 8), 2.5, nl.float32, buffer=buffer), 2.5),
    ],
)
def test_a_tensor_of_one_value_may_be_in_any_memory(make, value, buffer):
    np.testing.assert_array_equal(filled(lambda: make(buffer)).astype(np.float32), value)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("value", [None, "1", 10**400], ids=["None", "text", "large"])
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.hbm], ids=str)
def test_only_a_number_fills_a_tensor(value, buffer):
    with pytest.raises(IllegalInstruction, match=r"value.* is .*legal: a number"):
        nl.full((4, 8), value, nl.float32, buffer=buffer)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**63 - 1, 2**70, -(2**70), 3, 2.5, -0.0])
def test_a_tensor_of_64_bits_holds_every_one_of_them(value):
    found = filled(lambda: nl.full((2,), value, nl.int64, buffer=nl.hbm))
    assert found.tolist() == 2 * [min(max(round(value), -(2**63)), 2**63 - 1)]


@pytest.mark.usefixtures("on_core")
def test_a_tensor_like_another_is_so_in_all_that_is_not_given():
    model = nl.ndarray((4, 8), nl.bfloat16, buffer=nl.psum)
    for like in (nl.empty_like, nl.zeros_like):
        made = like(model)
        assert (made.shape, made.dtype, made.buffer) == ((4, 8), nl.bfloat16, nl.psum)
        other = like(model, dtype=nl.float32, buffer=nl.sbuf, name="x")
        assert (other.dtype, other.buffer, other.name) == (nl.float32, nl.sbuf, "x")


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("buffer", [nl.hbm, nl.shared_hbm], ids=str)
def test_an_address_in_hbm_is_not_emulated(buffer):
    with pytest.raises(NotModelled, match=r"address=\(64,\) of a tensor in HBM") as caught:
        nl.ndarray((4, 8), nl.float32, buffer=buffer, address=(64,))
    assert "leave address= out" in caught.value.fix
    with pytest.raises(IllegalInstruction, match=r"address=\(64,\); legal: \(first partition"):
        nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf, address=(64,))


def test_a_constant_comes_from_an_array_or_a_file(tmp_path):
    values = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.save(tmp_path / "c.npy", values)
    for constant in (values, tmp_path / "c.npy", str(tmp_path / "c.npy")):
        np.testing.assert_array_equal(filled(partial(nl.shared_constant, constant)), values)


@pytest.mark.usefixtures("on_core")
def test_a_constant_of_lists_of_several_lengths_is_refused():
    with pytest.raises(BadInput, match=r"nl\.shared_constant of a list that is no array") as caught:
        nl.shared_constant([[1], [1, 2]])
    assert "one length" in caught.value.fix


def test_a_constant_is_the_programs_own():
    values = np.zeros((2, 3), np.float32)

    @jit
    def kernel():
        constant = nl.shared_constant(values)
        nl.store(constant, nl.ones((2, 3), nl.float32))
        return constant

    assert trnsim.run(kernel).outputs.all()
    assert not values.any()


@pytest.mark.parametrize("dtype", [nl.uint8, nl.float32, nl.bfloat16], ids=str)
def test_the_identity_matrix_is_in_sbuf(dtype):
    found = filled(lambda: nl.shared_identity_matrix(16, dtype))
    np.testing.assert_array_equal(found.astype(np.float32), np.eye(16))
    assert found.dtype == dtype


def test_the_identity_matrix_may_go_to_a_tile_of_ones_own():
    def make():
        tile = nl.ndarray((8, 8), nl.float32)
        assert nl.shared_identity_matrix(8, dst=tile) is tile
        return tile

    np.testing.assert_array_equal(filled(make), np.eye(8))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_random_numbers_are_uniform_and_repeat_with_their_seed(target):
    def make():
        nl.random_seed(nl.full((1, 1), 42, nl.int32))
        return nl.rand((128, 512), nl.float32)

    found = filled(make, target)
    assert ((found >= 0) & (found < 1)).all()
    assert abs(found.mean() - 0.5) < 4 * (1 / 12 / found.size) ** 0.5
    assert abs(found.var() - 1 / 12) < 1e-3
    np.testing.assert_array_equal(filled(make, target), found)


@pytest.mark.usefixtures("on_core")
def test_a_seed_is_a_tile():
    with pytest.raises(IllegalInstruction, match=r"nl\.random_seed\(42\); legal: a \[1, 1\] tile"):
        nl.random_seed(42)


def test_a_region_has_one_of_four_names():
    with pytest.raises(BadInput, match=r"buffer=array\(.*legal: nl\.sbuf"):
        nl.ndarray((4, 8), nl.float32, buffer=np.zeros(3))
    with pytest.raises(BadInput, match="buffer='ddr'"):
        nl.is_hbm("ddr")


WORDS = ["sbuf", "psum", "hbm", "private_hbm", "shared_hbm"]
MAKERS = [
    lambda buffer: nl.ndarray((4, 8), nl.float32, buffer=buffer),
    lambda buffer: nl.zeros((4, 8), nl.float32, buffer=buffer),
    lambda buffer: nl.ones((4, 8), nl.float32, buffer=buffer),
    lambda buffer: nl.full((4, 8), 1.0, nl.float32, buffer=buffer),
    lambda buffer: nl.zeros_like(nl.ndarray((4, 8), nl.float32), buffer=buffer),
    lambda buffer: nl.empty_like(nl.ndarray((4, 8), nl.float32), buffer=buffer),
    lambda buffer: nl.rand((4, 8), nl.float32, buffer=buffer),
]


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("make", MAKERS)
def test_a_word_is_no_buffer_since_nki_0_3(make, word):
    with pytest.raises(IllegalInstruction, match=f"buffer='{word}' under NKI") as caught:
        make(word)
    assert caught.value.source.startswith("nki/migration/index.rst, String buffer names")


@pytest.mark.usefixtures("on_core")
def test_the_name_of_a_tensor_is_text():
    assert nl.ndarray((4, 8), nl.float32, name="w").name == "w"
    assert nl.ndarray((4, 8), nl.float32, name=None).name == ""
    with pytest.raises(IllegalInstruction, match=r"nl\.ndarray\(name=7\); legal: a string"):
        nl.zeros((4, 8), nl.float32, name=7)
