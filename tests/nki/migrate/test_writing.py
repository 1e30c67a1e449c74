"""Tests of the file for a later version."""

from trnsim.behaviours import VERSIONS
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import manual_reason, rewritten_file

TEXT = """# nki: 0.4
import nki
import nki.isa as nisa


@nki.jit
def k(x, y):
    if x:
        nisa.quantize_mx(  # of the input
            x, y,
            nisa.quantize_mx(x, y, x))
"""


def test_comments_stand_once_above_a_statement_and_the_marker_is_renewed():
    made = rewritten_file(report_of(TEXT, "k.py"))
    assert made.text.startswith("# nki: 0.7\n")
    head = "        # nki 0.7: the block scale of nisa.quantize_mx is twice that of the OCP spec;"
    assert made.text.splitlines()[8:11] == [
        f"{head} compare",
        "        # dequantized values, not the packed ones",
        "        nisa.quantize_mx(  # of the input",
    ]
    assert made.text.count("# nki 0.7") == 1
    assert len(made.commented_statements) == 2


def test_a_comment_that_is_there_is_not_written_again():
    made = rewritten_file(report_of(TEXT, "k.py")).text
    again = made.replace("# nki: 0.7", "# nki: 0.4")
    assert rewritten_file(report_of(again, "k.py")).text == made


def test_a_comment_below_control_characters_is_not_written_again():
    made = rewritten_file(
        report_of(TEXT.replace("import nki\n", "# \x85 \u2028\n\x0c\nimport nki\n"), "k.py")
    ).text
    assert made.count("# nki 0.7") == 1
    assert rewritten_file(report_of(made.replace("# nki: 0.7", "# nki: 0.4"), "k.py")).text == made


def test_a_file_without_statements_stays_as_it_is():
    report = report_of(TEXT, "k.py", VERSIONS["0.4"])
    assert rewritten_file(report).text == TEXT


def test_the_reason_of_a_row_without_a_rewrite_is_its_replacement():
    report = report_of(TEXT, "k.py")
    assert (
        manual_reason(report, report.statements[0])
        == "compare dequantized values, not the packed ones"
    )


def test_what_the_text_leaves_open_is_said_once_in_a_function():
    text = (
        TEXT.split("    if x", maxsplit=1)[0].replace("# nki: 0.4", "")
        + "    x.a.ap(y)\n    y.b.ap(x)\n"
    )
    report = report_of(text, "k.py", origin="0.4")
    assert [each.effect for each in report.statements] == ["perhaps other values"] * 2
    made = rewritten_file(report).text
    assert made.count("# nki 0.7: perhaps, here and below: tensor.ap(offset=) adds") == 1


LOOP = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def k(x, n):
    for i in nl.dynamic_range(n):
        nisa.memset(x[i], 0)
"""


def test_what_is_added_to_a_file_has_its_line_ends():
    for text in (TEXT, LOOP):
        made = rewritten_file(report_of(text, "k.py"))
        crlf = rewritten_file(report_of(text.replace("\n", "\r\n"), "k.py"))
        assert crlf.text == made.text.replace("\n", "\r\n")
        assert (crlf.rewrite_count, len(crlf.commented_statements)) == (
            made.rewrite_count,
            len(made.commented_statements),
        )
        assert rewritten_file(report_of(crlf.text, "k.py")).text == crlf.text
    mixed = rewritten_file(report_of(LOOP.replace("\n", "\r\n", 3), "k.py"))
    assert mixed.text == rewritten_file(report_of(LOOP, "k.py")).text.replace("\n", "\r\n", 3)
