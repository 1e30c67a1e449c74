"""Tests of random inputs of kernels."""

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.nki.migrate.file import SourceFile
from trnsim.nki.migrate.inputs import Shape, inputs_of, shapes_of

TEXT = """import nki
import nki.typing as nt

@nki.jit
def k(a: nt.tensor[128, 64], b, c: nt.tensor[N], flag=True, *, d: nt.mutable_tensor[4], e, f=1):
    pass
"""


def inputs(shapes=(), arrays=(), seed=0):
    file = SourceFile(TEXT)
    return inputs_of(file, file.kernels[0], shapes_of(shapes), arrays, seed)


def test_shapes_come_from_annotations_and_what_is_lacking_is_named():
    found, unknown = inputs()
    assert {name: array.shape for name, array in found.items()} == {"a": (128, 64), "d": (4,)}
    assert found["a"].dtype == np.float32
    assert unknown == ["b", "c", "e"]


def test_options_have_shapes_and_arrays_come_first():
    given = np.zeros((2, 2), "float32")
    found, unknown = inputs(["b=8x2:bfloat16", "c=3:int32", "e=1", "f=2:uint8"], [given])
    assert unknown == []
    assert found["a"] is given
    assert found["b"].dtype.name == "bfloat16"
    assert found["c"].shape == (3,)
    assert set(found["f"]) <= {0, 1, 2, 3}


def test_values_are_those_of_the_seed():
    assert (inputs(seed=1)[0]["a"] == inputs(seed=1)[0]["a"]).all()
    assert (inputs(seed=1)[0]["a"] != inputs(seed=2)[0]["a"]).any()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", r"--shape x; legal: NAME=128x512 or NAME=128x512:bfloat16"),
        ("x=12,4", r"--shape x=12,4; legal"),
        ("x=12:float99", r"--shape x=12:float99: float99 is no dtype; legal: float32, bfloat16"),
    ],
)
def test_a_shape_that_is_none_is_named(text, words):
    with pytest.raises(BadInput, match=words):
        shapes_of([text])
    assert shapes_of(["y=3"]) == {"y": Shape((3,))}
