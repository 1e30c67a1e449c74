"""FLOPs of convolutions beside the sums that their reference makes of ones."""

import itertools

import numpy as np
import pytest

from trnsim.graph.ops.contraction import Convolution
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
