import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.system.serve.load import Request
from trnsim.system.serve.trace import read, write

GOOD = '{"arrival": 0.5, "input": 512, "output": 128}\n'


def stored(tmp_path, text, name="trace.jsonl"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_json_lines_and_csv_say_the_same(tmp_path):
    lines = stored(
        tmp_path, GOOD + '\n{"arrival": 2, "input": 9, "output": 1, "prefix": "a", "after": 1}\n'
    )
    rows = stored(
        tmp_path, "arrival,input,output,prefix,after\n0.5,512,128,,\n2,9,1,a,1\n", "t.csv"
    )
    expected = (Request(0.5, 512, 128), Request(2.0, 9, 1, "a", 9, 0))
    assert read(lines) == read(rows) == expected


def test_arrivals_in_milliseconds_are_read(tmp_path):
    """12.345 may be twelve thousand; beside 0.5 it is not."""
    rows = "arrival,input,output\n0.5,9,1\n12.345,9,1\n"
    assert [one.arrival_s for one in read(stored(tmp_path, rows, "t.csv"))] == [0.5, 12.345]
    with pytest.raises(BadInput, match=r"arrival is '12\.345': may have a separator of thousands"):
        read(stored(tmp_path, rows.replace("0.5", "5"), "t.csv"))


def test_a_prefix_without_a_length_is_as_long_as_its_shortest_prompt(tmp_path):
    row = '{{"arrival": 0, "input": {}, "output": 1, "prefix": "{}"}}\n'
    load = read(stored(tmp_path, row.format(90, "a") + row.format(70, "a") + row.format(80, "b")))
    assert [one.prefix_tokens for one in load] == [70, 70, 80]


def test_a_prefix_with_a_lone_surrogate_is_written(tmp_path):
    load = (Request(0.0, 90, 1, "\ud800", 64),)
    for name, expected in (("o.jsonl", "\ud800"), ("o.csv", "\\ud800")):
        write(tmp_path / name, load, [0.0])
        assert read(tmp_path / name)[0].prefix == expected


def test_a_prefix_may_be_called_zero(tmp_path):
    row = '{"arrival": 0, "input": 90, "output": 1, "prefix": 0, "prefix_tokens": 64}\n'
    header = "arrival,input,output,prefix,prefix_tokens\n"
    expected = (Request(0.0, 90, 1, "0", 64),)
    assert read(stored(tmp_path, row)) == expected
    assert read(stored(tmp_path, f"{header}0,90,1,0,64\n", "t.csv")) == expected
    without_length = row.replace(', "prefix_tokens": 64', "")
    assert read(stored(tmp_path, without_length)) == (Request(0.0, 90, 1, "0", 90),)


_REQUESTS = st.lists(
    st.tuples(
        st.floats(0, 1e6, allow_nan=False),
        st.integers(1, 10**6),
        st.integers(1, 10**6),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize(("name", "start"), [("t.jsonl", "{"), ("t.CSV", "arrival,input,output")])
@settings(deadline=None)
@given(drawn=_REQUESTS)
def test_what_is_written_is_read_again_bit_for_bit(tmp_path_factory, name, start, drawn):
    arrivals = sorted(one[0] for one in drawn)
    load = tuple(
        Request(
            arrival, inputs, outputs, prefix, inputs if prefix else 0, 0 if late and place else None
        )
        for place, (arrival, (_, inputs, outputs, prefix, late)) in enumerate(
            zip(arrivals, drawn, strict=True)
        )
    )
    path = tmp_path_factory.mktemp("trace") / name
    write(path, load, arrivals)
    assert path.read_text().startswith(start)
    assert read(path) == load


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"arrival": 1, "input": 5', "not JSON: Expecting ',' delimiter"),
        ("[1, 2]", "the row is [1, 2]; legal: a mapping of fields: arrival"),
        (
            '{"arrival": 1, "input": 5}',
            "output is missing; legal: a whole number from 1 on [tokens]",
        ),
        ('{"arrival": NaN, "input": 5, "output": 3}', "not JSON: NaN is no number of JSON"),
        (
            '{"arrival": -1, "input": 5, "output": 3}',
            "arrival is -1; legal: a number from 0 to 1e+10 [s]",
        ),
        (
            '{"arrival": 1.1e10, "input": 5, "output": 3}',
            "arrival is 11000000000.0; legal: a number from 0 to 1e+10 [s]",
        ),
        (
            '{"arrival": 0.2, "input": 5, "output": 3}',
            "arrival is 0.2: before the 0.5 of the reque",
        ),
        ('{"arrival": 1, "input": 0, "output": 3}', "input is 0; legal: a whole number from 1 on"),
        ('{"arrival": 1, "input": 2.5, "output": 3}', "input is 2.5; legal: a whole number from 1"),
        (
            '{"arrival": 1, "input": 5, "output": -3}',
            "output is -3; legal: a whole number from 1 on",
        ),
        ('{"arrival": 1, "input": true, "output": 3}', "input is True; legal: a whole number"),
        ('{"arrival": 1, "input": "many", "output": 3}', "input is 'many': no number"),
        (
            '{"arrival": 1, "input": 1e999, "output": 3}',
            "not JSON: 1e999 is beyond the numbers of 64 bits",
        ),
        (
            '{"arrival": 1, "input": 5, "output": 3, "tokens": 1}',
            "the field 'tokens' is not known; legal: arr",
        ),
        (
            '{"arrival": 1, "input": 5, "output": 3, "after": 2}',
            "after is 2; legal: an earlier req",
        ),
        (
            '{"arrival": 1, "input": 5, "output": 3, "prefix_tokens": 2}',
            "prefix_tokens is 2; legal",
        ),
    ],
)
def test_a_broken_line_is_named_with_what_is_legal(tmp_path, line, message):
    path = stored(tmp_path, GOOD + line + "\n")
    with pytest.raises(
        BadInput, match=rf"^{re.escape(str(path))}:2: {re.escape(message)}"
    ) as error:
        read(path)
    assert error.value.line.line == 2
    advice = 'a line is {"arrival": 0.25, "input": 512, "output": 128}'
    fixes = ("perhaps 'prefix_tokens'", "sort the rows", "add a comma", advice)
    assert error.value.fix.startswith(fixes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,5", "2 cells, and the first line has 3 fields"),
        ("1,5,3,4", "4 cells, and the first line has 3 fields"),
        ("1,5,-3", "output is '-3'; legal: a whole number from 1 on"),
        ("1,,3", "input is missing; legal: a whole number"),
        ('1,"5,3', "no CSV: unexpected end of data"),
    ],
)
def test_a_broken_row_is_named(tmp_path, row, message):
    path = stored(tmp_path, f"arrival,input,output\n0,5,3\n{row}\n", "t.csv")
    with pytest.raises(BadInput, match=rf"^{re.escape(str(path))}:3: {re.escape(message)}"):
        read(path)


@pytest.mark.parametrize("text", ["", "\n\n", "arrival,input,output\n"])
def test_a_trace_without_requests_is_refused(tmp_path, text):
    with pytest.raises(BadInput, match=r": (no requests|the file is empty)\n  fix: a line is "):
        read(stored(tmp_path, text))
