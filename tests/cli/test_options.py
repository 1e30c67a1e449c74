import pytest

from trnsim.cli.options import as_number, chip_names
from trnsim.formatting import parse_number, parse_whole


@pytest.mark.parametrize("read", [parse_number, parse_whole])
def test_text_is_read_and_a_default_is_taken_as_it_is(read):
    assert as_number(read)("8_000") == 8000
    assert as_number(read)(8) == 8
    assert as_number(read)(None) is None
    with pytest.raises(ValueError, match="without separators or unit"):
        as_number(read)("8,000")


def test_the_chips_are_those_of_the_table():
    assert chip_names() == "trn1, inf2, trn2 or trn3"
