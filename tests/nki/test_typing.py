"""`nki.typing`: annotations that say what is meant and check nothing."""

import nki
import nki.language as nl
import nki.typing as nt
import numpy as np
import pytest


@pytest.mark.parametrize("name", ["tensor", "mutable_tensor", "scalar"])
def test_an_annotation_takes_any_shape_and_names_itself(name):
    annotation = getattr(nt, name)
    assert annotation[128, 512] is annotation[...] is annotation
    assert repr(annotation) == f"nki.typing.{name}"
    assert annotation.__name__ == name


def test_the_tensor_class_is_the_one_of_nki():
    assert nt.NkiTensor is nki.NkiTensor
    assert set(nt.__all__) == {"NkiTensor", "mutable_tensor", "scalar", "tensor"}


def test_an_annotated_kernel_runs_with_whatever_it_is_given():
    @nki.jit
    def kernel(a: nt.tensor[128, 512], factor: nt.scalar) -> nt.mutable_tensor:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), factor))
        return out

    np.testing.assert_array_equal(kernel(np.ones((4, 8), np.float32), 3.0), np.full((4, 8), 3))
