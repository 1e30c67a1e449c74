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


@pytest.mark.parametrize("end", ["", ",", ").", "):"])
def test_a_line_of_a_file_is_not_broken(end):
    place = f"/home/her/long folder/lib/python3.11/site-packages/one.py:42{end}".replace(" ", "-")
    assert wrapped(f"try: another shape, {place} or so", 30, 4, 2) == [
        "    try: another shape,", f"      {place}", "      or so",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "word", ["/home/her/folder/one.py", "/home/her/folder:42", "a.b:4x4x4x4x4"]
)
def test_another_word_that_is_wider_than_a_line_is_broken(word):
    assert wrapped(word, 10) == [word[at : at + 10] for at in range(0, len(word), 10)]


def test_a_path_that_is_wider_than_a_line_breaks_behind_a_slash():
    path = "frameworks/torch/torch-neuronx/training/parallel-compile.rst"
    assert wrapped(f"source: {path}", 30, hanging=2) == [
        "source:",
        "  frameworks/torch/",
        "  torch-neuronx/training/",
        "  parallel-compile.rst",
    ]
    assert wrapped("a/" + "b" * 20, 10) == ["a/" + "b" * 8, "b" * 10, "bb"]  # no line of two
    assert wrapped(path, 12, is_cell=True)[0] == path[:12]


def test_a_cell_is_as_wide_as_its_column():
    assert wrapped("kernels.py:42", 8, is_cell=True) == ["kernels.", "py:42"]
