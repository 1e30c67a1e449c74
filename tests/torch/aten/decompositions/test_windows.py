import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

torch.manual_seed(0)
LINE, IMAGE, VOLUME = torch.randn(2, 3, 13), torch.randn(2, 3, 9, 12), torch.randn(1, 2, 5, 6, 4)
OF_RANK = {1: LINE, 2: IMAGE, 3: VOLUME}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("rank", OF_RANK)
@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "ceil_mode": True},
        {"kernel_size": 2, "stride": 1, "dilation": 2},
    ],
    ids=str,
)
def test_maximum_pools_say_where_the_maximum_was(agree, rank, how):
    pool = getattr(F, f"max_pool{rank}d")
    agree(lambda x: pool(x, return_indices=True, **how), OF_RANK[rank], tolerance=0)


@pytest.mark.parametrize("rank", [2, 3])
def test_the_gradient_goes_where_the_maximum_was(agree, rank):
    pool = getattr(F, f"max_pool{rank}d")

    def gradient(x):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(pool(leaf, 3, 2, 1).square().sum(), leaf)[0]

    agree(gradient, OF_RANK[rank], tolerance=2.0**-20)


def test_adaptive_maxima_where_lengths_divide(agree):
    agree(lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), IMAGE, tolerance=0)
    agree(lambda x: F.adaptive_max_pool2d(x, 5), IMAGE, is_lowered=False, tolerance=0)


@pytest.mark.parametrize("how", [{"padding": 1, "stride": 2}, {"dilation": 2}], ids=str)
def test_patches_as_columns_and_back(agree, how):
    agree(lambda x: F.unfold(x, 3, **how), IMAGE, tolerance=0)
    columns = F.unfold(IMAGE, 3, **how)
    agree(lambda x: F.fold(x, (9, 12), 3, **how), columns, tolerance=2.0**-20)


LOW = torch.full((1, 1, 6, 7), -math.inf)


@pytest.mark.parametrize("options", [(3, 2, 1, 1), (2, 3, 1, 2)])
def test_places_of_minus_infinity_are_not_in_the_padding(same, options):
    same(lambda x: F.max_pool2d(x, *options, return_indices=True)[1], LOW)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(3, 2, 1, 1), (2, 1, 1, 1), (3, 2, 1, 2), (4, 3, 2, 3)])
def test_maxima_of_minus_infinity_are_not_the_padding(same, options):
    low = torch.full((2, 3, 12, 13), -math.inf)
    some = torch.where(torch.randn(2, 3, 12, 13) > 1, torch.randn(2, 3, 12, 13), low)
    for x in (low, some, some.bfloat16()):
        for which in (0, 1):
            same(lambda x, n=which: F.max_pool2d(x, *options, return_indices=True)[n], x)
        same(lambda x: F.max_pool2d(x, *options), x)


def test_the_gradient_of_a_maximum_of_minus_infinity_stays_in_the_input(same):
    def gradient(x):
        x = x.detach().clone().requires_grad_()
        torch.nn.functional.max_pool2d(x, 3, 2, 1).sum().backward()
        return x.grad

    same(gradient, LOW)


@pytest.mark.parametrize("options", [(3, 2, 1, 1), (2, 2, 0, 1), ((2, 5), 1, (1, 2), (2, 1))])
def test_the_first_of_equal_maxima_in_row_major_order_counts(same, options):
    x = torch.randint(0, 2, (2, 3, 9, 12)).float()
    for which in (0, 1):
        same(lambda x, n=which: F.max_pool2d(x, *options, return_indices=True)[n], x)


@pytest.mark.parametrize("how", [(3, 2, 1, 1), (2, 2, 0, 1)])
def test_the_first_of_equal_maxima_of_volumes_counts(same, how):
    x = torch.randint(0, 2, (1, 2, 5, 6, 4)).float()
    same(lambda x: F.max_pool3d(x, *how, return_indices=True)[1], x)
