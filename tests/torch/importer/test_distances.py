import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

torch.manual_seed(0)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_rows(agree, p):
    x, y = torch.randn(2, 5, 7), torch.randn(2, 6, 7)
    agree(lambda x, y: torch.cdist(x, y, p), x, y, tolerance=2.0**-16)
    agree(lambda x: torch.pdist(x, p), x[0], tolerance=2.0**-16)


@pytest.mark.parametrize("dim", [0, -1])
def test_cross_products(agree, dim):
    x, y = torch.randn(3, 4, 3), torch.randn(3, 4, 3)
    agree(lambda x, y: torch.linalg.cross(x, y, dim=dim), x, y, tolerance=2.0**-20)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_images_are_sampled_at_any_points(agree, mode, padding, is_aligned):
    image, grid = torch.randn(2, 3, 6, 7), torch.rand(2, 4, 5, 2) * 2.4 - 1.2
    agree(
        lambda x, g: F.grid_sample(x, g, mode, padding, is_aligned), image, grid,
        tolerance=2.0**-14,
    )  # fmt: skip
