"""Each kind of fault is made as it is said to be, and stays where it was drawn."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # scripts are no package
from draw import EACH, ROOMS, drawn, faults_of, ordered, source_of
from faults import place_of, places

KINDS = {
    ("comparison", "x < y"): {"x <= y"},
    ("comparison", "x <= y"): {"x < y"},
    ("comparison", "x > y"): {"x >= y"},
    ("comparison", "x >= y"): {"x > y"},
    ("comparison", "x == y"): {"x != y"},
    ("comparison", "x != y"): {"x == y"},
    ("comparison", "x < y <= z"): {"x <= y <= z", "x < y < z"},
    ("comparison", "x is y"): set(),
    ("sum", "x + y"): {"x - y"},
    ("sum", "x - y"): {"x + y"},
    ("sum", "x + 'y'"): set(),
    ("sum", "x + [y]"): set(),
    ("sum", "(x, *y) + z"): set(),
    ("rounding", "x // y"): {"x / y"},
    ("rounding", "ceil(x / y)"): {"int(x / y)"},
    ("rounding", "math.ceil(x)"): {"int(x)"},
    ("constant", "x[3]"): {"4", "2"},
    ("constant", "f(k=0.5)"): {"1.5", "-0.5"},
    ("constant", "f(True, 'x', None)"): set(),
    ("connective", "x and y"): {"x or y"},
    ("connective", "x or y"): {"x and y"},
    ("condition", "x if c else y"): {"not c"},
    ("condition", "[x for x in y if c]"): {"not c"},
    ("extreme", "min(x, y)"): {"max(x, y)"},
    ("extreme", "x.max(initial=y)"): {"x.min(initial=y)"},
    ("extreme", "np.minimum(x, y)"): {"np.maximum(x, y)"},
}  # fmt: skip


def found(source, kind=None):
    return [place for place in places(source, "room/file.py") if kind in (None, place.fault.kind)]


@pytest.mark.parametrize(("kind", "code"), KINDS)
def test_an_expression_is_changed_as_its_kind_says(kind, code):
    changed = {place.fault.after for place in found(f"v = {code}\n", kind)}
    assert {ast.unparse(ast.parse(after)) for after in changed} == KINDS[kind, code]


def test_rounding_up_is_dropped():
    assert {place.fault.after for place in found("v = -(-x // y)\n", "rounding")} == {
        "x // y",
        "-x / y",
    }


@pytest.mark.parametrize("head", ["if c:", "while c:"])
def test_a_statements_condition_is_negated(head):
    (place,) = found(f"{head}\n    f()\n", "condition")
    assert place.applied(f"{head}\n    f()\n") == f"{head.replace('c', '(not (c))')}\n    f()\n"


def test_a_call_that_is_returned_gives_its_first_argument_back():
    results = {
        "return g(x, y)": ["x"],
        "return a.g(x + 1)": ["x + 1"],
        "return g()": [],
        "return g(*x)": [],
        "return x": [],
    }
    for code, expected in results.items():
        source = f"def f():\n    {code}\n"
        assert [place.fault.after for place in found(source, "result")] == expected


def test_statements_are_left_out_within_loops_alone():
    source = (
        "def f(a):\n"
        "    x = 1\n"
        "    for b in a:\n"
        '        """Text."""\n'
        "        x += b\n"
        "        if b:\n"
        "            g(b)\n"
        "            continue\n"
        "        def h():\n"
        "            return i(\n"
        "                b)\n"
        "    g(x)\n"
    )
    left_out = found(source, "statement")
    assert [place.line for place in left_out] == [5, 7, 8]
    assert left_out[1].applied(source).splitlines()[6] == "            pass"


def test_what_does_not_run_is_let_be():
    source = (
        '"""Text: 1 + 1."""\n'
        "from x import y\n"
        "if TYPE_CHECKING:\n"
        "    z = 1\n"
        "@decorated(1)\n"
        "class A:\n"
        '    """Text."""\n'
        "    field: Literal[3]\n"
        "    def __repr__(self):\n"
        "        return f(1)\n"
        "    def examples(self):\n"
        "        return f(1)\n"
        "    def g(self, a: Literal[1]) -> Literal[2]:\n"
        "        raise E(f'{a + 1}', 1)\n"
        "    def h(self):\n"
        "        self.refuse(f'{1 + 1}')\n"
    )
    assert found(source) == []


def test_defaults_and_fields_are_code():
    source = "class A:\n    field: int = 3\n    def f(self, a=1, *, b=2): ...\n"
    assert [place.fault.before for place in found(source, "constant")[::2]] == ["3", "1", "2"]


def test_a_number_that_1_does_not_change_has_no_fault():
    assert [place.fault.before for place in found("x = 3e38, 2.5", "constant")] == ["2.5", "2.5"]


def test_a_fault_is_put_in_its_place_and_nothing_else_changes():
    source = "x = 'ä', 1  # 1\ny = (2 +\n     3) * 4\n"
    one = next(place for place in found(source) if place.fault.after == "2 - 3")
    assert one.applied(source) == "x = 'ä', 1  # 1\ny = ((2 - 3)) * 4\n"
    two = next(place for place in found(source) if place.fault.before == "1")
    assert two.applied(source).startswith("x = 'ä', (2)  # 1\n")


def test_a_fault_is_found_again_below_new_comments_and_docstrings():
    source = "def f(x):\n    return x + 1\n"
    moved = '"""Text."""\n# Why.\ndef f(x):\n    """More."""\n    return (  # here\n        x+1)\n'
    for place in found(source):
        assert place_of(place.fault, moved).line > place.line
    assert place_of(found(source)[0].fault, source.replace("+ 1", "+ 2")) is None


def test_equal_faults_of_a_function_are_told_apart():
    source = "def f(x):\n    x = x + 1\n    x = x + 1\n"
    sums = found(source, "sum")
    assert [place.fault.number for place in sums] == [0, 1]
    assert sums[1].applied(source) == "def f(x):\n    x = x + 1\n    x = (x - 1)\n"


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_every_fault_of_a_room_is_another_program(room):
    for by_kind in faults_of(room).values():
        for fault in by_kind[:: max(len(by_kind) // 4, 1)]:
            source = source_of(fault.file)
            mutant = place_of(fault, source).applied(source)
            assert ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(source))


@pytest.mark.slow_but("hazards", "isa/dma")
@pytest.mark.parametrize("room", ROOMS)
def test_eight_faults_a_room_are_drawn_of_many_kinds_in_an_order_that_repeats(room):
    faults = drawn()[room]
    assert len({(fault.file, fault.function, fault.statement) for fault in faults}) == EACH
    assert len({fault.kind for fault in faults}) > EACH // 2
    by_kind = faults_of(room)
    order = ordered(room, by_kind)
    assert order == ordered(room, by_kind)
    assert len(set(order)) == len(order)
