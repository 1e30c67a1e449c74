import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trnsim.workload.module_expressions import ModuleExpression

ATOMS = (
    *("a", "b", ".", r"\.", "[ab]", "[^a]", "[0-9]", r"\d", r"\W", r"\s", r"\S", "[^\\d.]"),
    *("^", "$", r"\b", r"\B", r"\Z", "(?!)", "(?=a)", "(?!a)", "(?<=a)", "(?<!a.)", "[A-B]", ""),
)
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{2,}"])).map(
            lambda both: f"({both[0]}){both[1]}"
        ),
        inner.map(lambda one: f"(?={one})"),
    ),
    max_leaves=6,
)


@example(r"\B", "", "")
@given(EXPRESSIONS, st.sampled_from(["", "(?i)"]), st.text("abAB.1 _", max_size=5))
def test_an_expression_matches_as_pythons(expression, flags, text):
    expected = re.match(flags + expression, text) is not None
    for with_many_ways in ("", "(?:(?:b)*)*"):
        assert ModuleExpression(flags + expression + with_many_ways).match(text) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+$",
        "(a|a)*$",
        "(a|a)" * 60 + "b",
        "a?" * 60 + "b",
        "(a|aa)+$",
        ".*.*.*.*.*.*.*.*.*.*b",
        "(" * 40 + "a" + "+)" * 40 + "$",
        "(ab|cd|)" * 1100 + "(a+)+$",
    ],
)
def test_an_expression_with_many_ways_to_fail_fails_soon(expression):
    assert not ModuleExpression(expression).match("a" * 60 + "!")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"(a)\1", "its groupref is not matched here"),
        ("(?>a)", "its atomic group is"),
        ("a++", "its possessive repeat is"),
        ("(?i:a)", "its subpattern is"),
        ("(" * 101 + "a" + ")" * 101, "more than 100 parts in one another"),
        ("(", "missing \\), unterminated subpattern"),
    ],
)
def test_an_expression_that_depends_on_earlier_matches_is_refused(expression, reason):
    with pytest.raises(re.error, match=f"^{reason}"):
        ModuleExpression(expression)
