"""Names, cells and lines of text that was written to do harm."""

import ast
import csv
import io
import json

import pytest

from trnsim.foreign_text import (
    file_name,
    markdown_text,
    syntax_tree,
    table_cell,
    table_row,
    terminal_text,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("matmul_tiled", "matmul_tiled"),
        ("a.b-c+d (2)", "a.b-c+d (2)"),
        ("größe", "größe"),
        ("../../etc/passwd", "_._.._etc_passwd"),
        ("..", "_"),
        (".", "_"),
        ("", "_"),
        (" ", "_"),
        (".bashrc", "_bashrc"),
        ("a/b\\c:d", "a_b_c_d"),
        ("a\x1b[31mb\nc\x00", "a_[31mb_c_"),
        ("con", "_con"),
        ("NUL.txt", "_NUL.txt"),
        ("console", "console"),
        ("name.", "name"),
        ("name. .", "name"),
        ("模" * 200, "模" * 40),
        ("x" * 300, "x" * 120),
    ],
)
def test_a_file_name_is_one_visible_component(text, name, tmp_path):
    assert file_name(text) == name
    (tmp_path / name).touch()
    assert [found.name for found in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("", ""),
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("-3.5e-2", "-3.5e-2"),
        ("+7", "+7"),
        ("a=b", "a=b"),
    ],
)
def test_a_cell_is_no_formula_and_a_number_stays_one(text, cell):
    assert table_cell(text) == cell


def test_a_row_keeps_what_is_no_text():
    assert table_row(["=1", -2, None, 0.5]) == ["'=1", -2, None, 0.5]


def test_a_row_is_read_back_as_it_was_written():
    stream = io.StringIO()
    csv.writer(stream).writerow(table_row(['=HYPERLINK("x")', "a,b", "line\nbreak"]))
    assert next(csv.reader(io.StringIO(stream.getvalue()))) == [
        *('\'=HYPERLINK("x")', "a,b", "line\nbreak"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("µs, größer, 行, ‰, …", "µs, größer, 行, ‰, …"),
        ("क\u200dष", "क\u200dष"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m", r"\u009b31m"),
        ("a\rb", r"a\x0db"),
        ("\x7f", r"\u007f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("\u2028", r"\u2028"),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_lines_for_a_terminal_command_nothing(text, shown):
    assert terminal_text(text) == shown


def test_json_for_a_terminal_stays_json():
    value = {"name": "\x1b[2J \x85 \u202e ü \U000e0041"}
    assert json.loads(terminal_text(json.dumps(value, ensure_ascii=False))) == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("llama_3.1-8b, größer", "llama_3.1-8b, größer"),
        ("<script>", r"\<script\>"),
        ("a | b", r"a \| b"),
        ("[a](http://b)", r"\[a\](http://b)"),
        ("`a` \\ *b*", r"\`a\` \\ \*b\*"),
        ("a\n# b\r\n c", "a # b c"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("-1.5", "-1.5"),
    ],
)
def test_markdown_makes_nothing_of_a_name(text, shown):
    assert markdown_text(text) == shown


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", ['x = "\\d"\n', b'x = "\\d"\n'])
def test_warnings_of_a_users_file_do_not_end_its_reader(source):
    with pytest.raises(SyntaxError, match="invalid escape"):
        ast.parse(source)
    (statement,) = syntax_tree(source).body
    assert statement.value.value == "\\d"
    with pytest.raises(SyntaxError):
        syntax_tree("x = ")
