"""Integers beside numbers of Python, as users write them, against PyTorch on the host."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

INF, NAN = math.inf, math.nan
EDGES = [-(2**31), -7, -1, 0, 1, 5, 100, 2**24, 2**24 + 1, 2**31 - 1]
FLOATS = [INF, -INF, NAN, 3e9, -3e9, 2.0**31, 2.0**24, 2.0**24 + 0.5, 2.5, -0.5, 1 + 1e-8, 1e300]
WHOLE = [300, -1, 256, 2**15, 0, 100]
"""Integers of Python, some of which a shorter type takes modulo its size."""
DTYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
COMPARED = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]


def edges(dtype):
    if dtype is torch.bool:
        return torch.tensor([False, True])
    limits = torch.iinfo(dtype)
    within = [one for one in EDGES if limits.min <= one <= limits.max]
    return torch.tensor([*within, min(limits.max, 2**31 - 1)], dtype=dtype)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", FLOATS + WHOLE)
def test_every_comparison_with_a_number(same, number, dtype):
    for function in COMPARED:
        same(lambda x, function=function: function(x, number), edges(dtype))
    same(lambda x: number < x, edges(dtype))
    if dtype is not torch.bool:  # which PyTorch refuses
        same(lambda x: torch.isin(x, number), edges(dtype))


@pytest.mark.parametrize("number", [2**40, -(2**63), 2**31])
def test_integers_of_64_bits_are_compared_with_the_number_itself(same, number):
    for function in COMPARED:
        same(lambda x, function=function: function(x, number), edges(torch.int64))


def test_infinities_are_looked_for_among_integers(same):
    x = torch.tensor([0, 1, -5, 2**31 - 1], dtype=torch.int32)
    for function in (torch.isinf, torch.isposinf, torch.isneginf, torch.isnan, torch.nan_to_num):
        same(function, x)
    same(lambda x: torch.nan_to_num(x, 2.5, INF, -INF), x)
    same(lambda x: x.masked_fill(x == INF, -1), x)
    same(lambda x: x.float().masked_fill(x >= -3e9, -INF), x)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [INF, -INF, NAN, 3e9, -3e9, 2.5, -1.5])
def test_bounds_and_choices_by_a_float_are_float32(same, number, dtype):
    x = edges(dtype)
    same(lambda x: x.clamp(min=number), x)
    same(lambda x: x.clamp(max=number), x)
    same(lambda x: torch.where(x > 0, x, number), x)
    same(lambda x: torch.where(x > 0, number, x), x)
    assert x.clamp(max=number).dtype is torch.float32


@pytest.mark.parametrize("number", [2**31, 2**40])
def test_a_bound_that_64_bits_have_leaves_what_is_below(same, number):
    same(lambda x: x.clamp(max=number), edges(torch.int64))
    same(lambda x: x.clamp(min=-number), edges(torch.int64))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int8, torch.uint8], ids=str)
def test_an_integer_of_python_in_a_shorter_type_keeps_its_low_bytes(same, dtype):
    number = -1 if dtype is torch.uint8 else 100  # what the host takes
    same(lambda x: x.masked_fill(x > 0, number), edges(dtype))
    same(lambda x: torch.where(x > 0, x, number), edges(dtype))
    same(lambda x: torch.full_like(x, number), edges(dtype))
    same(lambda x: torch.maximum(x, torch.tensor(300)), edges(dtype))
    same(lambda x: torch.minimum(x, torch.tensor(-200)), edges(dtype))


@pytest.mark.parametrize("number", [0, 1, -1, 0.5, INF, -INF, NAN, 2])
def test_a_truth_value_is_false_of_zero_alone(same, number):
    same(lambda x: torch.full_like(x, number), torch.tensor([False, True]))
    same(lambda x: x.masked_fill(x, number), torch.tensor([False, True]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8], ids=str)
def test_a_threshold_of_integers_is_an_integer(same, dtype):
    for bound in (-0.75, 2.5, -1.5):
        same(lambda x, n=bound: torch.nn.functional.threshold(x, n, 7), edges(dtype))
        same(lambda x, n=bound: torch.nn.functional.hardtanh(x, n - 1, 3.5), edges(dtype))
