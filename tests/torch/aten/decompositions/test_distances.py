import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

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
