"""Sizes of a benchmark."""

import pytest

from trnsim.errors import BadInput
from trnsim.tools.nccom.sizes import MOST_SIZES, size_bytes, sizes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("8", 8), ("1kb", 1024), ("64 KB", 65_536), ("2MiB", 2 * MIB), ("1g", 1 << 30),
        ("32M", 32 * MIB), (str(2**60), 2**60),
    ],
)  # fmt: skip
def test_units_are_powers_of_1024(text, nbytes):
    assert size_bytes(text, "--minbytes") == nbytes


@pytest.mark.parametrize(
    "text", ["", "0", "-8", "1.5KB", "8 elephants", "KB", "٣", str(2**60 + 1), "1" * 40]
)
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match=r"--minbytes '.*'; legal: a whole number above 0, with KB"):
        size_bytes(text, "--minbytes")


def test_a_step_and_a_factor_are_those_of_the_page():
    assert sizes("8", "16", step="4") == (8, 12, 16)
    assert sizes("8", "32", factor="2") == (8, 16, 32)
    assert sizes("1KB", "63KB", factor="8") == (1024, 8192)
    assert sizes("1KB", "4MB", factor="2KB") == (1024, 2 * MIB)  # a factor has units too


def test_the_defaults_are_32_mb_and_a_tenth_of_the_way():
    assert sizes() == (32 * MIB,)
    series = sizes("1MB", "11MB")
    assert series == tuple(at * MIB for at in range(1, 12))
    assert sizes("8")[0] == 8
    assert len(sizes("8")) == 11
    assert sizes("8", "12") == (8, 9, 10, 11, 12)  # less than a byte a tenth


def test_a_step_that_is_not_stated_has_whole_elements_of_each_rank():
    series = sizes("128", "32M", dtype="fp32", unit=32)
    assert all(nbytes % 128 == 0 for nbytes in series)
    assert len(series) == 11


@pytest.mark.parametrize(
    ("arguments", "reason", "fix"),
    [
        (("1MB", "1KB"), r"sizes from --minbytes 1MB to --maxbytes 1KB: the first", "-b 1KB -e"),
        (("64MB",), r"from --minbytes 64MB to --maxbytes 32M", "-b 64MB -e 64MB"),
        (("8", "16", "4", "2"), r"--stepbytes 4 and --stepfactor 2; legal: one of them", "leave"),
        (("8", "16", "", "1"), r"--stepfactor 1; legal: whole numbers from 2 on", "-f 2"),
        (("3", "16", "", "", "fp32"), r"--minbytes 3: 3 bytes are no whole number of fp32", "4"),
        (("4", "16", "2", "", "fp32"), r"--stepbytes 2: 2 bytes are no whole number", "4"),
        (("1", "1GB", "1"), r"would make 1,073,741,824 sizes; legal: at most 10,000", "--step"),
        (("x",), r"--minbytes 'x'; legal: a whole number", "--minbytes 1KB"),
        (("8", "y"), r"--maxbytes 'y'; legal", "--maxbytes 64MB"),
        (("8", "9", "", "z"), r"--stepfactor 'z'; legal", "--stepfactor 2"),
    ],
)
def test_what_makes_no_sizes_is_refused(arguments, reason, fix):
    with pytest.raises(BadInput, match=reason) as refusal:
        sizes(*arguments)
    assert fix in refusal.value.fix


def test_as_many_sizes_as_are_legal():
    assert len(sizes("1", str(MOST_SIZES), "1")) == MOST_SIZES
    with pytest.raises(BadInput, match=r"10,001 sizes"):
        sizes("1", str(MOST_SIZES + 1), "1")
