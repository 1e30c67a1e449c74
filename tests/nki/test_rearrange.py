"""`tensor.rearrange`: einops-style patterns."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.nki import language as nl


@pytest.fixture
def tensor(on_core):
    """Makes a tensor that counts its elements."""
    del on_core

    def make(shape, buffer=nl.sbuf):
        made = nl.ndarray(shape, nl.int32, buffer=buffer)
        made.array[...] = np.arange(np.prod(shape)).reshape(shape)
        return made

    return make


CASES = {
    "split and swap": (
        (("b", ("h", "w")), ("b", "w", "h"), {"h": 4}),
        lambda a: a.reshape(4, 4, 6).transpose(0, 2, 1),
    ),
    "split by the last": (
        (("b", ("h", "w")), ("b", "h", "w"), {"w": 3}),
        lambda a: a.reshape(4, 8, 3),
    ),
    "split in three": (
        (("b", ("x", "y", "z")), ("b", "y", "x", "z"), {"x": 2, "y": 3}),
        lambda a: a.reshape(4, 2, 3, 4).transpose(0, 2, 1, 3),
    ),
    "split and merge again": (
        (("b", ("h", "w")), ("b", ("h", "w")), {"h": 4, "w": 6}),
        lambda a: a,
    ),
    "nothing": ((("b", "f"), ("b", "f")), lambda a: a),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.hbm])
def test_a_pattern_splits_reorders_and_merges(tensor, name, buffer):
    arguments, exact = CASES[name]
    given = tensor((4, 24), buffer)
    np.testing.assert_array_equal(given.rearrange(*arguments).array, exact(given.array))


def test_hbm_has_no_partition_axis_to_keep(tensor):
    given = tensor((4, 6), nl.hbm)
    np.testing.assert_array_equal(given.rearrange(("a", "b"), ("b", "a")).array, given.array.T)
    with pytest.raises(IllegalInstruction, match="stays dimension 0"):
        tensor((4, 6)).rearrange(("a", "b"), ("b", "a"))


WRONG = {
    "too few groups": (("b",), ("b",), {}),
    "a name twice": (("b", "b"), ("b", "b"), {}),
    "a name that is new": (("b", "f"), ("b", "g"), {}),
    "a name that is gone": (("b", ("h", "w")), ("b", "h"), {"h": 4}),
    "two lengths open": (("b", ("h", "w")), ("b", "h", "w"), {}),
    "a length that does not divide": (("b", ("h", "w")), ("b", "h", "w"), {"h": 5}),
    "lengths that do not fit": (("b", ("h", "w")), ("b", "h", "w"), {"h": 4, "w": 5}),
    "a length of 0": (("b", ("h", "w")), ("b", "h", "w"), {"h": 0}),
    "a length below 0": (("b", ("h", "w")), ("b", "h", "w"), {"h": -4}),
    "a length that is no number": (("b", ("h", "w")), ("b", "h", "w"), {"h": "4"}),
    "lengths without names": (("b", ("h", "w")), ("b", "h", "w"), [4]),
    "names that are numbers": ((0, 1), (1, 0), {}),
    "a pattern that is none": (None, ("b", "hw"), {}),
    "a target that is none": (("b", "hw"), 5, {}),
    "names within a group that are numbers": (("b", (0, 1)), ("b", 0, 1), {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_pattern_that_does_not_fit_is_refused(tensor, name):
    with pytest.raises(IllegalInstruction, match="rearrange: ") as caught:
        tensor((4, 24)).rearrange(*WRONG[name])
    assert "fixed_sizes" in caught.value.fix
