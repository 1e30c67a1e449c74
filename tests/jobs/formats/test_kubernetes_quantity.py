from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.jobs.formats.kubernetes_quantity import bytes_text, cpu_value, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (0, 0),
        (16, 16),
        (1.5, Fraction(3, 2)),
        ("16", 16),
        ("+4", 4),
        (".5", Fraction(1, 2)),
        ("2.", 2),
        ("500m", Fraction(1, 2)),
        ("7n", Fraction(7, 10**9)),
        ("7u", Fraction(7, 10**6)),
        ("4k", 4000),
        ("4Ki", 4096),
        ("64Gi", 64 << 30),
        ("1.5Gi", 3 << 29),
        ("1E", 10**18),
        ("1Ei", 1 << 60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_a_quantity_is_exact(text, number):
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "Gi", "4 Gi", "4GB", "4KI", "4K", "-1", "1e", "1e999", "0x10", "٣", "1_000"),
        *(None, True, [], {}, float("nan"), float("inf"), 2**63, "8Ei", "9" * 31, "${N}"),
    ],
)
def test_anything_else_is_none(text):
    assert parse_quantity(text) is None


@given(st.integers(0, 2**63 - 1))
def test_bytes_are_read_as_they_are_written(count):
    assert parse_quantity(bytes_text(count)) == count


def test_bytes_have_the_largest_unit_that_divides_them():
    assert bytes_text(0) == "0"
    assert bytes_text(1023) == "1023"
    assert bytes_text(64 << 30) == "64Gi"
    assert bytes_text(3 << 29) == "1536Mi"


def test_vcpus_are_whole_or_in_thousandths():
    assert cpu_value(8.0) == 8
    assert cpu_value(0.5) == "500m"
    assert cpu_value(0.001) == "1m"
    assert cpu_value(0.0001) is None
    assert cpu_value(1 / 3) is None
