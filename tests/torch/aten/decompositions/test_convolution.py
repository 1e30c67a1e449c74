import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

aten = torch.ops.aten
torch.manual_seed(0)
CASES = {
    "patches": ((2, 3, 8, 8), (5, 3, 4, 4), 4, 0),
    "patches and a rest": ((2, 3, 11, 9), (5, 3, 4, 4), 4, 0),
    "padded patches": ((1, 3, 7, 6), (5, 3, 4, 4), 4, 1),
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


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("case", CASES)
def test_convolutions_and_their_gradients(agree, case):
    size, kernel, stride, padding = CASES[case]
    x, w, bias = torch.randn(size), torch.randn(kernel), torch.randn(kernel[0])
    convolve = {3: F.conv1d, 4: F.conv2d}[x.dim()]
    agree(lambda x, w, b: convolve(x, w, b, stride, padding), x, w, bias, tolerance=2.0**-16)
    g = torch.randn_like(convolve(x, w, bias, stride, padding))
    agree(lambda g, x, w: gradients(g, x, w, stride, padding), g, x, w, tolerance=2.0**-16)


FORMS = {
    "stride": ((2, 4, 9, 8), (6, 4, 3, 3), {"stride": 2, "padding": 1}),
    "grouped": ((2, 4, 6, 7), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 4, 6, 7), (4, 1, 3, 3), {"groups": 4, "padding": 1, "stride": 2}),
    "dilated": ((2, 4, 8, 9), (3, 4, 3, 3), {"dilation": 2, "padding": 2, "stride": 3}),
    "line": ((2, 4, 12), (4, 1, 4), {"groups": 4, "padding": 3}),
    "volume": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"stride": 2}),
    "transposed": ((2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "transposed, grouped": ((2, 4, 5, 6), (4, 2, 3, 3), {"groups": 2, "stride": 2}),
    "transposed, depthwise": ((2, 4, 9), (4, 1, 4), {"groups": 4, "dilation": 2}),
    "transposed line": ((2, 4, 9), (4, 3, 4), {"stride": 3}),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_and_all_its_gradients(agree, form):
    size, kernel, how = FORMS[form]
    kind = "conv_transpose" if "transposed" in form else "conv"
    convolve = getattr(F, f"{kind}{len(size) - 2}d")
    x, w = torch.randn(size), torch.randn(kernel)
    outputs = kernel[1] * how.get("groups", 1) if "transposed" in form else kernel[0]

    def both(x, w, bias):
        leaves = [part.detach().requires_grad_() for part in (x, w, bias)]
        result = convolve(*leaves, **how)
        weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(x.device)
        return [result.detach(), *torch.autograd.grad(result, leaves, weights)]

    agree(both, x, w, torch.randn(outputs), tolerance=2.0**-16)


def test_a_gradient_of_the_weight_that_only_the_cpu_returns(agree):
    def gradients(grad, image, weight):
        sizes = [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1
        return torch.ops.aten.convolution_backward(grad, image, weight, *sizes, [True, False, True])

    agree(
        gradients, torch.randn(3, 2, 3, 4), torch.randn(3, 4, 5, 6), torch.randn(2, 4, 3, 3),
        tolerance=2.0**-14,
    )  # fmt: skip
