import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics

torch.manual_seed(0)
X = torch.randn(5, 7, 9)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "var", "std", "argmax", "argmin"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reductions_over_one_dimension(agree, name, dim):
    agree(lambda x: getattr(torch, name)(x, dim), X, tolerance=2.0**-16)
    agree(lambda x: getattr(torch, name)(x, dim, keepdim=True), X, tolerance=2.0**-16)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "norm"])
def test_reductions_over_everything(agree, name):
    agree(getattr(torch, name), X, tolerance=2.0**-16)
    agree(getattr(torch, name), torch.randn(3, 5000), tolerance=2.0**-14)
    agree(getattr(torch, name), torch.randn(2, 5087), tolerance=2.0**-14)  # of a large prime number


@pytest.mark.parametrize("dims", [(0, 1), (1, 2), (0, 2)])
def test_reductions_over_several_dimensions(agree, dims):
    agree(lambda x: x.sum(dims), X, tolerance=2.0**-16)


@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norms(agree, order):
    agree(lambda x: torch.linalg.vector_norm(x, order, dim=-1), X, tolerance=2.0**-16)


def test_the_logarithm_of_a_sum_of_exponentials(agree):
    agree(lambda x: torch.logsumexp(x, -1), X, tolerance=2.0**-16)


def test_truth_values(agree):
    agree(lambda x: (x > 0).any(-1), X, tolerance=0)
    agree(lambda x: (x > 0).all(-1), X, tolerance=0)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dim", [0, -1])
def test_an_extreme_comes_with_its_first_place(agree, name, dim):
    agree(lambda x: getattr(torch, name)(x.round(), dim), X, tolerance=0)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_place_of_the_extreme_of_a_long_row(agree, name, dtype):
    rows = torch.randn(6, 4100).round().to(dtype)
    rows[1, 700:] = float("nan")
    rows[2, ::9], rows[3] = float("inf"), -float("inf")
    agree(lambda x: getattr(torch, name)(x, -1), rows, tolerance=0)
    agree(lambda x: getattr(torch, name)(2 * x, -1, keepdim=True), rows, tolerance=0)
    agree(getattr(torch, name), rows[4:], tolerance=0)


@pytest.mark.parametrize("order", [0, 3, 0.5, -float("inf")])
def test_other_norms(agree, order):
    agree(lambda x: torch.linalg.vector_norm(x, order, dim=1), X, tolerance=2.0**-14)


def test_moments_together_and_sums_of_some(agree):
    agree(lambda x: torch.var_mean(x, 1), X, tolerance=2.0**-16)
    agree(lambda x: torch.std_mean(x, (0, 2), correction=0), X, tolerance=2.0**-16)
    agree(lambda x: torch.trace(x[0]), X, tolerance=2.0**-16)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sums_up_to_each_place(agree, dim):
    agree(lambda x: torch.cumsum(x, dim), X, tolerance=2.0**-16)
    agree(lambda x: torch.cumsum((x > 0).long(), dim), X, tolerance=0)
    agree(lambda x: torch.cumprod(1 + x / 100, dim), X, tolerance=2.0**-16)


def test_both_extremes_and_how_many_are_not_zero(agree):
    x = torch.randn(4, 6).relu()
    agree(torch.aminmax, x)
    agree(lambda x: torch.aminmax(x, dim=1, keepdim=True), x)
    agree(torch.count_nonzero, x)
    agree(lambda x: torch.count_nonzero(x, dim=0), x)


@pytest.mark.parametrize("bounds", [(0, 3), (-1, 1), (-10, 10)])
def test_a_histogram(agree, bounds):
    agree(lambda x: torch.histc(x, 4, *bounds), torch.linspace(-4, 4, 33))


def test_experts_are_counted(agree):
    chosen = torch.tensor([0, 3, 3, 1, 7, 0])
    agree(lambda x: torch.histc(x.float(), 8, 0, 7), chosen)


def test_integers_are_counted_where_the_cpu_refuses_them():
    chosen = torch.tensor([0, 3, 3, 1, 7, 0], dtype=torch.int32).to("neuron")
    with numerics("exact") as on_host:
        found = torch.histc(chosen, 8, 0, 7)
    assert not on_host
    assert found.tolist() == [2, 1, 0, 2, 0, 0, 0, 1]


def test_a_place_of_nan_is_that_of_the_first():
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0], [nan, nan, 0.0], [2.0, 5.0, 5.0]])
    for function in (torch.argmax, torch.argmin):
        with numerics("exact") as on_host:
            assert torch.equal(function(x.to("neuron"), 1).cpu(), function(x, 1))
            assert torch.equal(function(x.to("neuron")).cpu(), function(x))
        assert not on_host


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_a_variance_without_freedom_is_no_number():
    with numerics("exact") as on_host:
        one = torch.tensor([3.0]).to("neuron")
        assert torch.isnan(one.std().cpu())
        assert torch.isnan(one.var().cpu())
        both = torch.tensor([1.0, 3.0]).to("neuron")
        assert both.var(correction=2).cpu() == float("inf")
    assert not on_host


@pytest.mark.parametrize("name", ["any", "all"])
def test_over_no_dimensions_each_element_is_its_own(same, name):
    same(lambda x: getattr(torch, name)(x, dim=()), torch.tensor([[0.0, 2.0], [float("nan"), 0.0]]))


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_short_integers_are_reduced_in_long_ones(same, name, dtype):
    same(lambda x: getattr(torch, name)(x, 0), torch.tensor([100, 120, 99, 7]).to(dtype))


@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "cumsum", "cumprod"])
def test_floats_reduced_to_integers_lose_their_fractions_first(same, name):
    x = torch.tensor([1.5, -2.75, 3.9])
    same(lambda x: getattr(torch, name)(x, 0, dtype=torch.int64), x)


@pytest.mark.parametrize("name", ["sum", "prod", "nansum"])
@pytest.mark.parametrize("x", [[0.5, -0.5], [0.5, 0.25], [2.0, 0.0], [0, 0], [1, -1]], ids=str)
def test_numbers_reduced_to_truth_values_are_first_of_them(same, name, x):
    same(lambda x: getattr(torch, name)(x, 0, dtype=torch.bool), torch.tensor(x))


@pytest.mark.parametrize(
    "function",
    [
        torch.norm,
        lambda x: torch.linalg.vector_norm(x, 3.0, dim=1),
        lambda x: x.std(1),
        lambda x: torch.std_mean(x, 1),
    ],
)
def test_squares_of_float16_may_lie_beyond_its_range(agree, function):
    x = torch.tensor([[300.0, 1000.0], [-2.0, 400.0], [1.0, -900.0]]).half()
    agree(function, x, tolerance=2.0**-10)
