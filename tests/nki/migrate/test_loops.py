"""Tests of loops on the device as functions of their body; AWS's pairs are in test_guide."""

import pytest

from trnsim.behaviours import VERSIONS
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import manual_reason, rewritten_file

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n@nki.jit\ndef k(x, n):\n"


def report(body):
    lines = "".join(f"    {line}\n" for line in ["r = nisa.register_alloc(n)", *body])
    return report_of(HEAD + lines, "k.py")


def new(*body):
    text = rewritten_file(report(body)).text
    return text.removeprefix(HEAD + "    r = nisa.register_alloc(n)\n")


def test_comments_and_formatting_stay():
    made = new("for i in nl.dynamic_range(2, r):  # rows", "    g(i,  # index", "      x)", "g(x)")
    assert made == (
        "    def body(i):  # rows\n        g(i,  # index\n          x)\n\n"
        "    nl.fori_loop(2, r, body)\n    g(x)\n"
    )


def test_a_step_is_a_keyword():
    made = new("for i in nl.dynamic_range(0, r, 2):", "    g(i)")
    assert "nl.fori_loop(0, r, body, step=2)" in made
    assert "step" not in new("for i in nl.dynamic_range(0, r, 1):", "    g(i)")


def test_nested_loops_and_loops_in_a_row_have_functions_of_their_own():
    made = new(
        "for i in nl.dynamic_range(r):",
        "    for j in nl.dynamic_range(r):",
        "        g(i, j)",
        "for i in nl.dynamic_range(r):",
        "    g(i)",
    )
    assert made.count("def body(i):") == 1
    assert "def body_2(j):" in made
    assert "def body_3(i):" in made
    assert "        nl.fori_loop(0, r, body_2)\n\n    nl.fori_loop(0, r, body)\n" in made


def test_a_register_gets_a_name_that_is_free():
    made = new("w = nisa.register_alloc(1)", "while w:", "    nisa.register_load(w, x)")
    assert "    def body(register):\n        nisa.register_load(register, x)\n" in made
    assert "        return register\n\n    nl.while_loop(w, body)\n" in made


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (["for i in nl.dynamic_range(r):", "    if i:", "        break"], "has `break`"),
        (["for i in nl.dynamic_range(r):", "    x = g(x)"], "binds x for the code around it"),
        (["for i in nl.dynamic_range(r):", "    g(i)", "else:", "    g(x)"], "has an `else`"),
        (["for i in nl.dynamic_range(0, r, n):", "    g(i)"], "the step is not written out"),
        (["for i in nl.dynamic_range(r):", "    g(i)", "g(i)"], "binds i for the code around"),
        (["for i in nl.dynamic_range(stop=r):", "    g(i)"], "not three values in their order"),
        (["for i, j in nl.dynamic_range(r):", "    g(i)"], "no variable of one name"),
        (["a = nl.dynamic_range(r)"], "not the range of a `for`"),
        (["while r:", "    g(r)", "g(r)"], "r is read after the loop"),
        (["while r: g(r)"], "stands on the line of `while`"),
        (
            ["with nl.no_reorder():", "    for i in nl.dynamic_range(r):", "        g(i)"],
            "under nl.no_reorder",
        ),
    ],
)
def test_a_loop_that_is_no_function_is_for_a_person(body, words):
    told = report(body)
    ways = {manual_reason(told, statement) for statement in told.statements}
    assert len(ways) == 1
    assert words in ways.pop()
    made = rewritten_file(told)
    assert made.rewrite_count == 0
    assert "    # nki 0.7: " in made.text


def test_a_loop_that_computes_with_its_variable_stays_in_0_6():
    loops = {
        compute: f"{HEAD}    for i in nl.dynamic_range(n):\n        g({compute})\n"
        for compute in ("i * 4", "-i", "i")
    }
    loops["g[0] += i"] = f"{HEAD}    for i in nl.dynamic_range(n):\n        g[0] += i\n"
    to = VERSIONS["0.6"], "0.5"
    found = {by: report_of(text, "k.py", *to) for by, text in loops.items()}
    assert rewritten_file(found["i"]).rewrite_count == 1
    assert [rewritten_file(found[by]).rewrite_count for by in ("i * 4", "-i", "g[0] += i")] == [
        0
    ] * 3
    (statement,) = found["i * 4"].statements
    assert "computes with the variable" in manual_reason(found["i * 4"], statement)
    later = rewritten_file(report_of(loops["i * 4"], "k.py"))
    assert (later.rewrite_count, "nl.fori_loop(0, n, body)" in later.text) == (1, True)
