"""FLOPs of convolutions and attention beside what their references compute of ones."""

import itertools

import numpy as np
import pytest

from trnsim.graph.ops.contraction import Attention, Convolution
from trnsim.graph.types import TensorType

CASES = [
    (length, taps, stride, gap, dilation)
    for length, taps, stride, gap, dilation in itertools.product(
        (1, 4, 5), (1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2)
    )
    if (length - 1) * (gap + 1) >= (taps - 1) * dilation
]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_flop_of_a_convolution_leave_out_the_zeros_of_gaps(is_reversed):
    for length, taps, stride, gap, dilation in CASES:
        of = Convolution(
            strides=(stride,), low=(0,), high=(0,), gaps=(gap,), dilations=(dilation,), groups=2,
            is_reversed=is_reversed,
        )  # fmt: skip
        image, kernel = np.ones((3, 4, length)), np.ones((6, 2, taps))
        products = of.reference(image, kernel).sum()
        flop = of.flop(TensorType(image.shape, "float32"), TensorType(kernel.shape, "float32"))
        assert flop == 2 * products, (length, taps, stride, gap, dilation)


def test_flop_of_a_convolution_count_the_zeros_of_padding():
    of = Convolution(strides=(2,), low=(1,), high=(2,), gaps=(1,), dilations=(1,), groups=1)
    tensors = TensorType((1, 1, 3), "float32"), TensorType((1, 1, 2), "float32")
    # Padded: 0 x - x - x 0 0, where - is a gap; windows of two begin at 0, 2, 4 and 6.
    assert of.flop(*tensors) == 2 * 4


@pytest.mark.parametrize("window", [0, 1, 3, 8])
@pytest.mark.parametrize(("first", "apart"), [(0, 1), (3, 1), (0, 2), (1, 3)])
def test_visible_pairs_of_causal_attention_are_the_finite_scores(first, apart, window):
    queries, keys = 3, 9
    operation = Attention(1.0, True, first, apart, window)
    scores = operation.scores(np.ones((queries, 2)), np.ones((keys, 2)), ())
    assert operation.visible_pairs(queries, keys) == np.isfinite(scores).sum()


@pytest.mark.parametrize(
    ("mask", "starts", "ends"),
    [
        ({}, [0, 0, 0], [5, 5, 5]),
        ({"window": 3}, [0, 0, 1], [2, 3, 4]),
        ({"window": 4}, [0, 0, 1], [2, 3, 4]),
        ({"window": 5, "first": 2}, [0, 1, 2], [5, 5, 5]),
        ({"is_causal": True}, [0, 0, 0], [1, 2, 3]),
        ({"is_causal": True, "window": 2}, [0, 0, 1], [1, 2, 3]),
        ({"is_causal": True, "first": 1, "apart": 2, "window": 3}, [0, 1, 3], [2, 4, 5]),
        ({"is_causal": True, "first": 4, "apart": 3, "window": 2}, [3, 5, 5], [5, 5, 5]),
    ],
    ids=str,
)
def test_the_keys_that_queries_see(mask, starts, ends):
    seen = Attention(1.0, **mask).visible_keys(3, 5)
    assert [side.tolist() for side in seen] == [starts, ends]


def test_visible_pairs_without_a_causal_mask():
    assert Attention(1.0).visible_pairs(3, 9) == 27
    assert Attention(1.0, window=4).visible_pairs(3, 9) == 12
