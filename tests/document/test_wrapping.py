import pytest

from trnsim.document.wrapping import columns_of, wrapped


def test_wide_characters_take_two_columns_and_marks_none():
    assert (columns_of("abc"), columns_of("表"), columns_of("e\u0301")) == (3, 2, 1)


@pytest.mark.parametrize(
    ("command", "width"),
    [
        ("trnsim prices compare", 30),
        ("trnsim plan train --on trn2", 30),
        ("pip install 'trnsim[aws]'", 30),
        ("--on trn2,p5en", 20),
        ('--fault "link=chip 0 to chip 1"', 40),
    ],
)
def test_a_command_that_fits_on_a_line_is_not_broken(command, width):
    for before in range(width):
        lines = wrapped(f"{'a' * before} {command} says it, and more words follow it here", width)
        assert any(command in line for line in lines)
        assert max(map(len, lines)) <= width


def test_a_command_wider_than_a_line_breaks_between_words():
    assert wrapped("see trnsim plan train --on trn2 now", 12) == [
        "see trnsim", "plan train", "--on trn2", "now",
    ]  # fmt: skip
