"""Twelve made-up companies: what is expected of each is legal, priced and computed as it says."""

import ast
import operator
from collections import Counter
from datetime import date

import pytest
from company_files import HERE, NAMES, companies, company

from trnsim.arch.catalogue import catalogue
from trnsim.price import quote

DAY = date(2026, 11, 21)
VERDICTS = {"go", "pilot", "no-go", "needs-quote", "stay"}
KEYS = {"workload", "verdict", "is_close_call", "chip", "rule", "reason", "times", "prices"}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def computed(formula):
    """The value of a formula of numbers."""

    def value(node):
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        return ast.literal_eval(node)

    return value(ast.parse(str(formula), mode="eval").body)


def test_there_are_twelve_of_all_sorts():
    expected = [one.expected for one in companies()]
    verdicts = Counter(one["verdict"] for one in expected)
    assert verdicts == {"go": 2, "pilot": 2, "needs-quote": 3, "no-go": 3, "stay": 2}
    assert [one["chip"] for one in expected].count("inferentia2") == 2
    assert [one["is_close_call"] for one in expected].count(True) == 2
    workloads = [one.workload for one in companies()]
    assert {one.kind for one in workloads} == {"train", "serve", "infer"}
    assert min(one.current.usd_per_month for one in workloads) == 8_000
    assert max(one.current.usd_per_month for one in workloads) == 30_000_000
    families = {one.current.instance.partition(".")[0] for one in workloads}
    assert families == {"p4d", "p5", "p5en", "g5", "g6e", "trn1", "inf1"}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_is_complete(name):
    expected = company(name).expected
    assert expected.keys() - {"findings"} == KEYS | {"arithmetic", "flips"}
    assert expected["workload"] == company(name).workload.name
    assert expected["verdict"] in VERDICTS
    assert (expected["chip"] is None) == (expected["verdict"] in {"no-go", "stay"})
    assert expected["chip"] is None or expected["chip"] in catalogue().chips
    assert (HERE / name / "README.md").is_file()
    for flip in expected["flips"]:
        assert flip["verdict"] in VERDICTS
        assert flip["rule"]
        assert flip["because"]
        is_close = flip.get("is_close_call", expected["is_close_call"])
        assert (flip["verdict"], is_close) != (expected["verdict"], expected["is_close_call"])


@pytest.mark.parametrize("name", NAMES)
def test_prices_are_those_of_the_catalogue(name):
    for what, usd_per_hour in company(name).expected["prices"].items():
        instance, kind = what.split()
        assert quote(instance, kind, as_of=DAY).usd_per_hour == pytest.approx(
            usd_per_hour, rel=1e-3
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_arithmetic_of_a_reason_is_right(name):
    for what, (formula, stated) in company(name).expected["arithmetic"].items():
        assert computed(formula) == pytest.approx(stated, rel=0.025), what
