import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

aten = torch.ops.aten
torch.manual_seed(0)
CASES = {
    "patches": ((2, 3, 8, 8), (5, 3, 4, 4), 4, 0),
    "same": ((2, 3, 6, 7), (4, 3, 3, 3), 1, 1),
    "line": ((2, 3, 20), (4, 3, 5), 1, 2),
    "pointwise": ((2, 3, 5, 5), (4, 3, 1, 1), 1, 0),
}


def gradients(g, x, w, stride, padding):
    rank = x.dim() - 2
    return aten.convolution_backward(
        g, x, w, [w.shape[0]], [stride] * rank, [padding] * rank, [1] * rank, False, [0] * rank, 1,
        [True, True, True],
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_convolutions_and_their_gradients(agree, case):
    size, kernel, stride, padding = CASES[case]
    x, w, bias = torch.randn(size), torch.randn(kernel), torch.randn(kernel[0])
    convolve = {3: F.conv1d, 4: F.conv2d}[x.dim()]
    agree(lambda x, w, b: convolve(x, w, b, stride, padding), x, w, bias, tolerance=2.0**-16)
    g = torch.randn_like(convolve(x, w, bias, stride, padding))
    agree(lambda g, x, w: gradients(g, x, w, stride, padding), g, x, w, tolerance=2.0**-16)


def test_a_stride_forward(agree):
    x, w = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
    agree(lambda x, w: F.conv2d(x, w, stride=2, padding=1), x, w, tolerance=2.0**-16)


@pytest.mark.parametrize(
    "convolve",
    [
        lambda x: F.conv2d(x, torch.ones(4, 1, 3, 3).to(x.device), groups=4),
        lambda x: F.conv2d(x, torch.ones(4, 4, 3, 3).to(x.device), dilation=2),
        lambda x: F.conv_transpose2d(x, torch.ones(4, 4, 3, 3).to(x.device)),
    ],
)
def test_what_is_missing_is_named(agree, convolve):
    agree(convolve, torch.randn(2, 4, 8, 8), is_lowered=False)
