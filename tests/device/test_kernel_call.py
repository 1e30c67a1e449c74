import sys
from dataclasses import dataclass
from unittest.mock import Mock

import nki
import nki.language as nl
import numpy as np
import pytest

from trnsim.device.call_time import TensorSpec, time_of
from trnsim.device.kernel_call import KernelCall, ResultSpec, results_in, with_results
from trnsim.errors import BadInput
from trnsim.graph import TensorType
from trnsim.runs import OBSERVERS, collecting


@dataclass(frozen=True)
class Spec(TensorSpec):
    """A tensor of a framework whose dtypes are numpy's names."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def type(self):
        return TensorType(self.shape, self.dtype)


@dataclass(frozen=True)
class Flat:
    """Arguments that are not nested; `named` are given by name."""

    named: tuple[str, ...] = ()

    def unflatten(self, leaves):
        cut = len(leaves) - len(self.named)
        return tuple(leaves[:cut]), dict(zip(self.named, leaves[cut:], strict=True))


@nki.jit
def halves(source, result, factor=1.0):
    """Writes its second argument; returns two tensors in a dict, one in a list."""
    made = [
        nl.ndarray(source.shape, dtype, buffer=nl.shared_hbm) for dtype in (nl.float32, nl.uint32)
    ]
    tile = nl.load(source)
    for target in (result, *made):
        nl.store(target, value=nl.multiply(tile, factor))
    return {"half": made[0], "others": [made[1], None]}


@nki.jit
def wide(source):
    """What no chip takes: a tile of more than 128 partitions."""
    return nl.ndarray((256, source.shape[1]), dtype=source.dtype, buffer=nl.sbuf)


def call(kernel, *leaves, named=()):
    return KernelCall.of(kernel, leaves, Flat(named))


def test_an_outline_says_what_is_written_and_returned_without_values():
    found = call(halves, Spec((8, 4)), Spec((8, 4)))
    with collecting() as runs:
        outline = found.outline("trn2")
    assert not runs  # the user launched nothing
    assert outline.written == (1,)
    assert outline.results == {
        "half": ResultSpec((8, 4), "float32"),
        "others": [ResultSpec((8, 4), "uint32"), None],
    }
    assert found.specs == (Spec((8, 4)), Spec((8, 4)))
    assert (found.name, found.operation) == ("nki::halves", "halves")


@nki.jit
def with_parts(source):
    """Holds a constant of 96 bytes and 256 bytes in private HBM."""
    table = nl.shared_constant(np.ones((4, 6), np.float32))
    kept = nl.ndarray((8, 16), nl.bfloat16, buffer=nl.private_hbm)
    result = nl.ndarray(source.shape, source.dtype, buffer=nl.shared_hbm)
    nl.store(kept[0:4, 0:6], value=nl.load(table))
    nl.store(result, value=nl.load(source))
    return result


@nki.jit
def crowded(source):
    """Three tiles live at once, of which SBUF has room for two (192 KiB a partition on trn2)."""
    tiles = [nl.load(source[at]) for at in range(3)]
    result = nl.ndarray(source.shape, source.dtype, buffer=nl.shared_hbm)
    for at in range(3):
        tiles[at] = nl.multiply(tiles[at], 2.0)
    for at in range(3):
        nl.store(result[at], value=tiles[at])
    return result


def test_neither_runs_nor_outlines_of_a_call_are_observed(monkeypatch):
    observer = Mock()
    monkeypatch.setattr(OBSERVERS, "present", [observer])
    found = call(halves, Spec((8, 6)), Spec((8, 6)))
    found.measure("trn2")
    found.run([np.ones((8, 6), np.float32) for _ in range(2)], "trn2")
    assert observer.method_calls == []
    halves(*(np.ones((8, 6), np.float32) for _ in range(2)))
    assert observer.method_calls


def test_an_outline_says_what_the_kernel_holds_beside_tensors():
    outline = call(with_parts, Spec((8, 4))).outline("trn2")
    assert outline.name == "with_parts"
    assert (outline.constant_bytes, outline.scratchpad_bytes) == (4 * 6 * 4, 8 * 16 * 2)
    outline = call(halves, Spec((8, 4)), Spec((8, 4))).outline("trn2")
    assert (outline.constant_bytes, outline.scratchpad_bytes) == (0, 0)


@pytest.mark.filterwarnings("ignore:.*SBUF")
def test_spills_are_part_of_the_scratchpad():
    columns = 20 * 1024
    outline = call(crowded, Spec((3, 128, columns))).outline("trn2")
    moved = {
        use.nbytes
        for one in outline.timelines
        for use in one.program.uses.values()
        if use.name.startswith("spill of")
    }
    assert outline.scratchpad_bytes == sum(moved) > 0
    assert outline.scratchpad_bytes <= 3 * 128 * columns * 4


def test_its_time_is_that_of_its_outline_on_each_chip():
    found = call(halves, Spec((8, 4)), Spec((8, 4)))
    for chip in ("trn1", "trn2"):
        assert time_of(found, chip).kernels == (found.outline(chip).cost,)
    assert found.outline("trn1") is not found.outline("trn2")


def test_what_a_chip_refuses_has_no_time_and_says_why():
    time = time_of(call(wide, Spec((8, 4))), "trn2")
    assert time.kernels == ()
    assert "256" in time.missing_reason


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_a_run_gives_values_and_the_same_outline(factor):
    found = call(halves, Spec((8, 4)), Spec((8, 4)), factor, named=("factor",))
    arrays = [np.ones((8, 4), np.float32), np.zeros((8, 4), np.float32)]
    results, outline = found.run(arrays, "trn2")
    np.testing.assert_array_equal(results["half"], np.full((8, 4), factor, np.float32))
    np.testing.assert_array_equal(arrays[1], results["half"])
    assert outline.results == found.outline("trn2").results
    assert found.outline("trn2") is outline


def test_calls_are_equal_where_shapes_numbers_types_and_settings_are():
    same = [call(halves, Spec((8, 4)), Spec((8, 4)), 1.0) for _ in range(2)]
    assert same[0] == same[1]
    assert hash(same[0]) == hash(same[1])
    for other in (1, True, 2.0):
        assert call(halves, Spec((8, 4)), Spec((8, 4)), other) != same[0]
    assert call(halves, Spec((8, 5)), Spec((8, 4)), 1.0) != same[0]
    changed = KernelCall(halves, same[0].leaves, same[0].tree, same[0].types, True)
    assert changed != same[0]


def test_1_and_true_and_one_half_are_different_calls():
    spec = Spec((8, 4))
    calls = [call(halves, spec, spec, factor) for factor in (1, 1.0, True)]
    assert len({*calls, call(halves, spec, spec, 1)}) == 3


@pytest.mark.parametrize(
    "leaf", [{1, 2}, np.zeros(2), slice(1)], ids=lambda one: type(one).__name__
)
def test_an_argument_by_which_no_call_is_found_again_is_refused(leaf):
    if isinstance(leaf, slice) and sys.version_info >= (3, 12):
        pytest.skip("a slice has a hash from Python 3.12 on")
    with pytest.raises(
        BadInput, match=f"halves was called with a {type(leaf).__name__}, "
    ) as caught:
        call(halves, Spec((8, 4)), Spec((8, 4)), leaf)
    assert "pass tensors, numbers, words, dtypes" in caught.value.fix
    assert caught.value.line.file == __file__


@nki.jit
def returned(source, result, other):
    tile = nl.load(source)
    nl.store(result, value=tile)
    nl.store(other, value=tile)
    return [result, {"two": 2}]


def test_what_it_writes_and_does_not_return_is_lost_to_who_cannot_change_arrays():
    outline = call(returned, *[Spec((4, 4))] * 3).outline("trn2")
    assert outline.written == (1, 2)
    assert outline.unreturned == (2,)
    assert call(halves, Spec((4, 4)), Spec((4, 4))).outline("trn2").unreturned == (1,)


@pytest.mark.parametrize("has_values", [False, True])
def test_what_is_written_is_found_by_arguments_that_are_named_in_another_order(has_values):
    named = call(returned, *[Spec((4, 4))] * 3, named=("other", "source", "result"))
    arrays = [np.ones((4, 4), np.float32) for _ in range(3)]
    outline = named.run(arrays, "trn2")[1] if has_values else named.outline("trn2")
    assert (outline.written, outline.unreturned) == ((0, 2), (0,))


class Holder(nl.NKIObject):
    def __init__(self, source):
        self.source = source


@nki.jit
def stored_from(holder, result):
    nl.store(result, value=nl.load(holder.source))


def test_tensors_of_an_object_are_not_among_those_that_are_written():
    holder = Holder(np.ones((4, 4), np.float32))
    assert call(stored_from, holder, Spec((4, 4))).outline("trn2").written == (0,)


def test_results_come_in_a_row_and_are_nested_again():
    spec = Spec((8, 4))
    one = call(halves, spec, spec)
    source = np.arange(32, dtype=np.float32).reshape(8, 4)
    half, whole = one.values([source, np.zeros_like(source)], "trn2")
    np.testing.assert_array_equal(half, source)
    np.testing.assert_array_equal(whole, source.astype(np.uint32))
    outline = one.outline("trn2")
    assert [(one.shape, one.numpy_dtype.name) for one in outline.specs] == [
        ((8, 4), "float32"),
        ((8, 4), "uint32"),
    ]
    nested = with_results(outline.results, iter("ab"))
    assert nested == {"half": "a", "others": ["b", None]}
    assert results_in(outline.results, nested) == ["a", "b"]
