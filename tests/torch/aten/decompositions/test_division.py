import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics

X = torch.linspace(-3, 3, 24).reshape(4, 6)
Y = torch.linspace(0.1, 2, 24).reshape(4, 6)
INF, NAN = float("inf"), float("nan")
INTEGERS = torch.tensor([7, -7, 2**31 - 1, -(2**31), 2**24 + 1, 0, 1], dtype=torch.int32)
DIVISIONS = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_divide": torch.floor_divide,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


def test_quotients_and_what_they_leave(agree):
    agree(torch.true_divide, X, Y)
    agree(lambda x, y: torch.div(x, y, rounding_mode="floor"), X, Y)
    agree(torch.remainder, X, Y, tolerance=2.0**-16)
    agree(torch.fmod, X, Y + 0.0137, tolerance=2.0**-16)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", DIVISIONS)
def test_whole_quotients_are_divided_without_a_rest(agree, name):
    whole = torch.arange(1, 513).reshape(8, 64).float()
    for x, y in ((whole, whole), (whole * 7, whole), (-whole * 3, whole), (whole, -whole)):
        agree(DIVISIONS[name], x, y, tolerance=0)
    for number in (1.0, 7.0, -3.0, 49.0):
        agree(DIVISIONS[name], whole, number, tolerance=0)
    fractions = whole / 3
    agree(DIVISIONS[name], fractions, fractions, tolerance=0)


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_rest_is_that_of_the_divisor_as_it_is_stored(agree, name):
    x, y = torch.linspace(-30, 30, 512).reshape(8, 64), torch.tensor([[0.1, 0.3, -0.7, 2.0]])
    agree(DIVISIONS[name], x, y.repeat(8, 16), tolerance=2.0**-18)
    agree(DIVISIONS[name], x, 0.1, tolerance=2.0**-18)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_divided(agree, name, dtype):
    x = torch.arange(240).reshape(8, 30).to(dtype)
    agree(DIVISIONS[name], x, torch.full_like(x, 7), tolerance=0)
    agree(DIVISIONS[name], x + 1, x + 1, tolerance=0)


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_an_infinite_divisor_leaves_what_it_divides(name):
    endless = float("inf")
    x, y = torch.tensor([[5.0, -5.0, 5.0, 0.0]]), torch.tensor([[endless, endless, -endless, 1.0]])
    for given in ((x, y), (x, endless)):
        with numerics("exact") as on_host:
            moved = [t.to("neuron") if isinstance(t, torch.Tensor) else t for t in given]
            found = getattr(torch, name)(*moved).cpu()
        assert not on_host
        assert torch.equal(found, getattr(torch, name)(*given))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_rounded_quotient_of_infinities_is_the_hosts(same, mode):
    x = torch.tensor([1.0, -1.0, INF, 0.0, 7.0, -7.0, 3.0, INF, NAN])
    y = torch.tensor([-INF, INF, 1.0, INF, 2.0, 2.0, -INF, -INF, 1.0])
    same(lambda a, b: torch.div(a, b, rounding_mode=mode), x, y)
    for divisor in (INF, -INF):
        same(lambda a, d=divisor: torch.div(a, d, rounding_mode=mode), x)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_quotient_beyond_the_largest_number_is_infinite(same, mode):
    x = torch.tensor([3e38, -3e38, 3e38, 1e20, INF, -INF, INF, 0.0, 1.0])
    y = torch.tensor([0.5, 0.5, 1e-3, 1e-30, 0.0, 0.0, -0.0, 0.0, -0.0])
    same(lambda a, b: torch.div(a, b, rounding_mode=mode), x, y)
    same(lambda a: torch.div(a, 0.5, rounding_mode=mode), x)
    same(lambda a: torch.div(a, 0.0, rounding_mode=mode), x)


@pytest.mark.parametrize("divisor", [2, -3, 7, 1, 2**24 + 1])
def test_quotients_and_remainders_of_integers_are_exact(same, divisor):
    same(lambda x: x // divisor, INTEGERS)
    same(lambda x: torch.div(x, divisor, rounding_mode="trunc"), INTEGERS)
    same(lambda x: x % divisor, INTEGERS)
    same(lambda x: torch.fmod(x, divisor), INTEGERS)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("number", [2.5, -0.5, INF, -INF, NAN, 3e9, 2.0**24])
def test_whole_quotients_of_integers_by_a_float(same, number):
    small = torch.tensor([0, 1, 5, -7, 100, 2**24], dtype=torch.int32)
    for x in (small, small.long(), small.to(torch.int8)):
        same(lambda x: x // number, x)
        same(lambda x: torch.div(x, number, rounding_mode="trunc"), x)


@pytest.mark.parametrize("number", [2, 0.5, -3.0])
def test_truth_values_are_divided_as_0_and_1(agree, number):
    x = torch.tensor([[False, True, True]])
    for function in (torch.true_divide, torch.remainder, torch.fmod, torch.floor_divide):
        agree(function, x, number)
    agree(torch.pow, x, abs(number))
    agree(lambda x: number**x, x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
@pytest.mark.parametrize("number", [300, -3, -1, 70000])
def test_a_number_beside_integers_is_first_of_their_type(same, dtype, number):
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min, limits.max, limits.max // 2, 0, 1, 3, 7], dtype=dtype)
    for function in (torch.floor_divide, torch.remainder, torch.fmod):
        same(lambda x, f=function: f(x, number), x)
