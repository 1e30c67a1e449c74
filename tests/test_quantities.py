import re
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim
from trnsim.quantities import UNITS, example, legal_units, number, whole, wholes

TIMES = {"ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": "1", "min": "60", "h": "3600", "d": "86400"}
SIZES = {"k": "1e3", "M": "1e6", "B": "1e9", "T": "1e12", "Ki": "1024", "Mi": "1048576"}
MANTISSAS = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4
).map(lambda value: f"{value:f}0")  # not three digits after the point: those may be thousands


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("8000", "tokens", 8e3),
        ("8_000", "", 8e3),
        ("-2.5", "", -2.5),
        (".5", "", 0.5),
        ("1e9", "tokens", 1e9),
        ("10B", "tokens", 1e10),
        ("4 M", "tokens", 4e6),
        ("128k", "tokens", 128e3),
        ("128Ki", "tokens", 131072),
        ("30ms", "s", 0.03),
        ("100ms", "s", 0.1),
        ("0.1s", "s", 0.1),
        ("2h", "s", 7200),
        ("5m", "s", 300),
        ("90d", "hours", 2160),
        ("2w", "days", 14),
        ("3 days", "hours", 72),
        ("1.5s", "ms", 1500),
        ("42µs", "microseconds", 42),
        ("64MiB", "bytes", 2**26),
        ("2GB", "bytes", 2e9),
        ("512KiB", "bytes", 2**19),
        ("10B", "bytes", 10),
        ("80%", "share", 0.8),
        ("80%", "", 0.8),
        ("20%", "percent", 20),
        ("20", "percent", 20),
        ("240/min", "requests/s", 4),
        ("20k/s", "tokens/s", 20e3),
        ("20k", "tokens/s", 20e3),
        ("1B/month", "tokens/month", 1e9),
        ("1kW", "W", 1000),
        ("$35", "USD/hour", 35),
        ("$1.25/h", "USD/hour", 1.25),
        ("36 USD/day", "USD/hour", 1.5),
        ("80k", "USD/month", 80e3),
        ("0.08 USD/kWh", "USD/kWh", 0.08),
        ("1e-400", "s", 0),
    ],
)
def test_a_number_is_taken_in_the_unit_that_is_asked_for(text, unit, expected):
    assert number(text, unit) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("10B", 10_000_000_000), ("1.5k", 1500), ("1e3", 1000), ("8.0", 8)]
)
def test_a_whole_number_is_an_int(text, expected):
    value = whole(text, "tokens")
    assert (type(value), value) == (int, expected)


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("10BB", "tokens", "'10BB' has the unit 'BB'; legal: k, M, B, T, Ki, Mi, Gi; perhaps 10B"),
        (
            "30 msec",
            "s",
            "'30 msec' has the unit 'msec'; legal: ns, us, ms, s, min, h, d, w; perhaps 30 ms or",
        ),
        ("4m", "tokens", "'4m' has the unit 'm'; legal: k, M, B, T, Ki, Mi, Gi; perhaps 4M"),
        ("10bn", "tokens", "legal: k, M, B, T, Ki, Mi, Gi; perhaps 10B"),
        ("3 hrs", "s", "perhaps 3 h"),
        ("4M", "bytes", "legal: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; perhaps 4MB or 4MiB"),
        ("5 furlongs", "s", "'5 furlongs' has the unit 'furlongs'; legal: ns, us, ms, s, min, h"),
        ("30ms", "tokens", "'30ms' has the unit 'ms'; legal: k, M, B"),
        ("80%", "tokens", "'80%' has the unit '%'; legal: k, M, B"),
        ("$5", "tokens", "'$5' is no number [tokens]"),
        (
            "8,000",
            "s",
            "'8,000' is no number [s]; write it without separators, with a unit or without: 8000,",
        ),
        ("nan", "s", "'nan' is no finite number [s]; write"),
        ("-Infinity", "s", "'-Infinity' is no finite number"),
        ("", "s", "'' is no number"),
        ("s", "s", "'s' is no number"),
        ("0x10", "", "'0x10' is no number"),
        ("٣", "", "'٣' is no number"),
        ("1'000", "", "is no number"),
        ("1 000", "", "is no number"),
        ("8.000", "s", "'8.000' may have a separator of thousands; write 8000, or 8.0000 for"),
        ("12.345k", "", "write 12345k, or 12.3450k for a fraction"),
        ("1e400", "s", "'1e400' is too large; the largest number is 1.7e308"),
        ("1e999999999", "s", "'1e999999999' is too large"),
        ("1e-999999999", "s", "'1e-999999999' is too small"),
        ("1e9999999999", "s", "is no number"),
        ("9" * 5000, "s", r"9\.\.\.' is too large"),
    ],
)
def test_what_is_no_number_says_what_is_legal(text, unit, message):
    with pytest.raises(ValueError, match=message.replace("$", r"\$").replace("[", r"\[")):
        number(text, unit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5", "'1.5' is no whole number of tokens; write for example 1"),
        ("0.0001k", "'0.0001k' is no whole number of tokens; write for example 0"),
        ("1e400", "'1e400' is too large; the largest whole number is 9.2e18"),
        ("10TT", "perhaps 10T"),
        ("inf", "'inf' is no finite number"),
    ],
)
def test_what_is_no_whole_number_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        whole(text, "tokens")
    assert whole(str(2**63 - 1)) == 2**63 - 1
    assert whole(f"-{2**63 - 1}") == 1 - 2**63


@given(MANTISSAS, st.sampled_from(sorted(TIMES)), st.sampled_from(["", " "]))
def test_a_time_is_the_float_nearest_to_its_decimal(mantissa, unit, space):
    with localcontext(prec=60):
        exact = Decimal(mantissa) * Decimal(TIMES[unit])
    assert number(f"{mantissa}{space}{unit}", "s") == float(exact)


@given(MANTISSAS, st.sampled_from(sorted(SIZES)))
def test_a_count_is_whole_exactly_where_its_decimal_is(mantissa, unit):
    with localcontext(prec=60):
        exact = Decimal(mantissa) * Decimal(SIZES[unit])
    if exact != int(exact):
        with pytest.raises(ValueError, match="is no whole number"):
            whole(mantissa + unit)
    elif abs(exact) < 2**63:
        assert whole(mantissa + unit) == int(exact)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_as_python_writes_it_is_itself(value):
    text = repr(value)
    if "e" not in text:
        text += "0000"  # three digits after the point may be thousands
    assert number(f"{text} s", "s") == number(text, "s") == value


@given(st.text(max_size=12), st.sampled_from(["", "s", "bytes", "USD/hour", "tokens/s"]))
def test_any_other_text_is_refused_as_a_value_error(text, unit):
    for read in (number, whole):
        try:
            assert read(text, unit) == pytest.approx(float(read(text, unit)))
        except ValueError as error:
            assert repr(text)[:20] in str(error)  # noqa: PT017  it is legal to pass


@pytest.mark.parametrize("text", [("8", (8,)), ("8,16", (8, 16)), ("8, 128", (8, 128))])
def test_whole_numbers_are_separated_by_commas(text):
    assert wholes(text[0]) == text[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8,128", "'8,128' may be one number or several; write 8128, or 8 and 128 as '8, 128'"),
        ("8,,16", "'' is no number"),
        ("8,16,8", "'8,16,8' has a number twice; write each once"),
        ("8,1.5", "'1.5' is no whole number"),
    ],
)
def test_lists_that_may_be_another_number_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        wholes(text)


def test_a_list_by_nature_has_no_separators_of_thousands():
    assert wholes("128,256,1Ki", "tokens", is_list=True) == (128, 256, 1024)


@pytest.mark.parametrize("unit", [*UNITS, "tokens/s", "USD/hour", "USD/month", "tokens/month"])
def test_the_example_of_a_unit_is_legal(unit):
    assert number(example(unit), unit) > 0
    assert legal_units(unit)


def test_the_unit_of_every_field_and_option_is_known():
    source = Path(trnsim.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py")]
    stated = {
        unit
        for text in texts
        if "trnsim.reader" in text or "quantity_options" in text
        for unit in re.findall(r'\bunit="([^"]+)"', text)
    }
    assert len(stated) > 15
    for unit in stated:
        assert number("8", unit) == 8


def test_where_fractions_are_certain_three_digits_are_one():
    assert number("1.125", has_fractions=True) == 1.125
    assert number("12.345ms", "s", has_fractions=True) == 0.012345
    with pytest.raises(ValueError, match=r"'1\.234\.567' "):
        number("1.234.567", has_fractions=True)
