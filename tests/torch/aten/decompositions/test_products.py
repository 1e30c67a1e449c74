import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.graph import TensorType
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decompositions.products import DECOMPOSITIONS

torch.manual_seed(0)
A, B = torch.randn(33, 150), torch.randn(150, 70)
TOLERANCE = 150 * 2.0**-24 * 16
# A diagonal that is not small: a triangle's inverse grows with its size, and so does rounding.
MATRIX = 0.2 * torch.randn(2, 3, 20, 20) + 2 * torch.eye(20)
solve = torch.linalg.solve_triangular


def test_products_of_matrices_however_they_lie(agree):
    agree(torch.mm, A, B, tolerance=TOLERANCE)
    agree(lambda a, b: a.t().contiguous().t() @ b, A, B, tolerance=TOLERANCE)
    agree(lambda a, b: a @ b.t().contiguous().t(), A, B, tolerance=TOLERANCE)


def test_batches(agree):
    agree(torch.bmm, torch.randn(3, 4, 5), torch.randn(3, 5, 6), tolerance=TOLERANCE)
    agree(lambda x: x @ x.transpose(1, 2), torch.randn(3, 4, 5), tolerance=TOLERANCE)


def test_a_linear_layer(agree):
    layer = torch.nn.Linear(150, 20)
    weight, bias = layer.weight.detach(), layer.bias.detach()
    agree(torch.nn.functional.linear, A, weight, bias, tolerance=TOLERANCE)


def test_a_sum_and_a_product(agree):
    agree(
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        torch.randn(33, 70), A, B, tolerance=TOLERANCE,
    )  # fmt: skip


def test_vectors(agree):
    agree(torch.mv, A, B[:, 0].contiguous(), tolerance=TOLERANCE)
    agree(torch.dot, A[0], B[:, 0].contiguous(), tolerance=TOLERANCE)


def test_bfloat16_is_accumulated_in_float32_and_rounded_once(agree):
    agree(torch.mm, A.bfloat16(), B.bfloat16(), tolerance=2.0**-8)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integers_are_multiplied_in_float32(agree, dtype):
    """The Tensor Engine has no integers: products are exact up to 2**24."""
    x, y = torch.arange(-6, 6).reshape(3, 4).to(dtype), torch.arange(20).reshape(4, 5).to(dtype)
    if dtype == torch.uint8:
        x = x.clamp(max=5)
    bias = torch.arange(5).to(dtype)
    agree(torch.mm, x // 2, y)
    agree(torch.bmm, (x // 2)[None], y[None])
    agree(torch.addmm, bias, x // 2, y)
    agree(torch.mv, x // 2, y[:, 1].contiguous())
    agree(lambda a, b: a.t().contiguous().t() @ b, x // 2, y)
    agree(torch.nn.functional.linear, x // 2, y.t().contiguous(), bias)


def test_a_product_over_nothing_is_zeros(agree):
    agree(torch.mm, torch.ones(3, 0), torch.ones(0, 4))
    agree(torch.addmm, torch.ones(3, 4), torch.ones(3, 0), torch.ones(0, 4))


def test_outer_products_and_sums_over_a_batch(agree):
    bias, x, y = torch.randn(3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    agree(lambda *a: torch.addbmm(*a, beta=0.5, alpha=2), bias, x, y)
    agree(torch.addr, bias, torch.randn(3), torch.randn(5))
    agree(torch.vdot, torch.randn(24), torch.randn(24))


@pytest.mark.slow_but_every(3)
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((16, 5, 16), (16, 16, 1)),
        ((16, 1, 16), (16, 16, 5)),
        ((17, 1, 1), (17, 1, 1)),
        ((16, 5, 17), (16, 17, 1)),
        ((15, 5, 16), (15, 16, 1)),
        ((16, 2, 3), (16, 3, 2)),
    ],
)
def test_batches_of_vectors_of_up_to_16_elements_and_longer_ones(agree, x, y, dtype):
    within = 2.0**-20 if dtype == torch.float32 else 2.0**-7
    operands = torch.randn(x).to(dtype), torch.randn(y).to(dtype)
    agree(torch.bmm, *operands, tolerance=within)


def test_many_products_by_short_vectors_have_no_product_of_their_own():
    for batch, is_product in ((16, False), (15, True)):
        b = Build()
        x, y = b.graph.input((batch, 4, 8), "float32"), b.graph.input((batch, 8, 1), "float32")
        b.result_types = [TensorType((batch, 4, 1), "float32")]
        DECOMPOSITIONS["bmm"](b, x, y)
        names = {type(node.operation).__name__ for node in b.graph.nodes}
        assert ("DotGeneral" in names) is is_product
