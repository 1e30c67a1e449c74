import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

torch.manual_seed(0)
# A diagonal that is not small: a triangle's inverse grows with its size, and so does rounding.
MATRIX = 0.2 * torch.randn(2, 3, 20, 20) + 2 * torch.eye(20)
solve = torch.linalg.solve_triangular


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems(agree, upper, unitriangular, left):
    y = torch.randn(2, 3, 20, 5) if left else torch.randn(2, 3, 5, 20)
    agree(
        lambda a, y: solve(a, y, upper=upper, left=left, unitriangular=unitriangular), MATRIX, y,
        tolerance=2.0**-16,
    )  # fmt: skip


def test_one_matrix_serves_a_batch(agree):
    agree(
        lambda a, y: solve(a, y, upper=False), MATRIX[0, 0], torch.randn(3, 20, 4), tolerance=2**-16
    )


def test_a_system_of_one_equation(agree):
    agree(lambda a, y: solve(a, y, upper=True), MATRIX[..., :1, :1], torch.randn(2, 3, 1, 4))
