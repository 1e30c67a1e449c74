"""Gradients of maximum pooling beside those of the CPU."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device.numerics import numerics

aten = torch.ops.aten
POOLS = {
    "apart": ((2, 3, 8, 12), (2, 2), (2, 2), (0, 0), (1, 1)),
    "overlapping": ((2, 3, 9, 14), (3, 3), (2, 2), (1, 1), (1, 1)),
    "by one": ((1, 3, 9, 7), (2, 3), (1, 1), (1, 1), (1, 1)),
    "long, by one": ((2, 2, 11, 6), (5, 5), (1, 1), (2, 2), (1, 1)),
    "longer than the image": ((1, 2, 5, 4), (7, 7), (1, 1), (3, 3), (1, 1)),
    "a column, by one": ((1, 2, 9, 1), (5, 5), (1, 1), (2, 2), (1, 1)),
    "long, dilated": ((1, 2, 13, 11), (5, 5), (1, 1), (2, 1), (2, 1)),
    "dilated": ((1, 2, 11, 12), (2, 3), (3, 2), (1, 1), (3, 2)),
    "with gaps": ((1, 2, 10, 11), (1, 2), (3, 4), (0, 1), (1, 1)),
    "a line": ((3, 2, 1, 17), (1, 3), (1, 2), (0, 1), (1, 1)),
}


def gradient(*sizes, ceil_mode=False):
    """The gradient of a pool whose results weigh differently, by its own indices."""
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(sizes[0])]
    kernel, stride, padding, dilation = sizes

    def of(x):
        leaf = x.detach().requires_grad_()
        y = pool(leaf, kernel, stride, padding, dilation, ceil_mode)
        weights = torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(x.device, x.dtype)
        (found,) = torch.autograd.grad(y, leaf, weights)
        return found

    return of


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("name", POOLS)
def test_each_element_has_the_gradients_of_the_windows_whose_maximum_it_is(agree, name, ceil_mode):
    shape, *sizes = POOLS[name]
    x = torch.randn(shape)
    agree(gradient(*sizes, ceil_mode=ceil_mode), x)
    agree(gradient(*sizes, ceil_mode=ceil_mode), torch.round(x))  # the first of equal elements


@pytest.mark.parametrize("name", ["overlapping", "long, by one"])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_gradients_that_are_no_numbers_stay_at_their_elements(name, number):
    shape, *sizes = POOLS[name]
    x = torch.randn(shape)

    def of(x):
        y, indices = aten.max_pool2d_with_indices(x, *sizes)
        weights = torch.ones(y.shape)
        weights[0, 1, 2, 3] = number
        return aten.max_pool2d_with_indices_backward(
            weights.to(x.device), x, *sizes, False, indices
        )

    with numerics("exact") as on_host:
        found = of(x.to("neuron")).cpu()
    assert not on_host
    torch.testing.assert_close(found, of(x), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "sizes",
    [((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)), ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1))],
)
def test_gradients_of_volumes(agree, sizes):
    agree(gradient(*sizes), torch.round(torch.randn(1, 2, 5, 6, 7) * 2))


def test_gradients_of_bfloat16(agree):
    agree(gradient(*POOLS["overlapping"][1:]), torch.randn(2, 3, 9, 14).bfloat16(), tolerance=2**-7)
