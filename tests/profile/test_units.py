import pytest

from trnsim.profile.units import bytes_text, percent_text, rate_text, time_text


@pytest.mark.parametrize(
    ("time_s", "words"),
    [
        (0.0, "0 ns"),
        (62.5e-9, "62.5 ns"),
        (8.4213e-6, "8.42 us"),
        (15e-6, "15 us"),
        (123.4e-3, "123 ms"),
        (7200.0, "7200 s"),
        (999.4e-6, "999 us"),
        (999.6e-6, "1 ms"),
        (-999.6e-9, "-1 us"),
        (0.99951, "1 s"),
        (1e300, "1e+300 s"),
    ],
)
def test_times_have_three_digits_and_a_fitting_unit(time_s, words):
    assert time_text(time_s) == words


def test_bytes_are_binary_and_rates_decimal():
    assert bytes_text(24 * 1024) == "24 KiB"
    assert bytes_text(100) == "100 B"
    assert (bytes_text(2**20 - 1), bytes_text(2**20 - 1024)) == ("1 MiB", "1023 KiB")
    assert rate_text(312.4e9, "B/s") == "312 GB/s"


@pytest.mark.parametrize(("share", "words"), [(0.0, "0 %"), (0.0714, "7.1 %"), (0.71, "71 %")])
def test_small_percentages_keep_a_decimal(share, words):
    assert percent_text(share) == words
