"""Faults in a source: small changes of its code, each of which a test should notice.

Only what runs is changed: no docstrings, messages, types, decorators, no `__repr__`, and no
examples, which are the tests' own inputs.
"""

import ast
import copy
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cache

FLIPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SWAPPED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
}
UNMUTATED_FUNCTIONS = {"__repr__", "__str__", "examples"}
TEXTS = (ast.List, ast.Tuple, ast.JoinedStr)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Break, ast.Continue)


@dataclass(frozen=True, order=True)
class Fault:
    """A change of one place, which comments and other functions do not move.

    Attributes:
        file: below src/trnsim.
        function: its qualified name, empty for the module.
        kind: of fault.
        statement: the first line of the statement.
        before: what stands there.
        after: what stands there instead.
        number: of the places that are the same in all that, from 0.
    """

    file: str
    function: str
    kind: str
    statement: str
    before: str
    after: str
    number: int = 0


@dataclass(frozen=True)
class Place:
    """Where a fault lies in one version of its file: a node, and the text to put there."""

    fault: Fault
    node: ast.AST

    @property
    def line(self):
        """From 1."""
        return self.node.lineno

    def applied(self, source):
        """The source with the fault."""
        lines = source.encode().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        first = starts[self.node.lineno - 1] + self.node.col_offset
        last = starts[self.node.end_lineno - 1] + self.node.end_col_offset
        code = b"".join(lines)
        after = self.fault.after
        if isinstance(self.node, ast.expr):
            after = f"({after})"
        return (code[:first] + after.encode() + code[last:]).decode()


@cache
def places(source, file):
    """Every fault of a source, in the order of its lines."""
    finder = _Finder(file)
    finder.visit(ast.parse(source))
    seen, found = Counter(), []
    for fault, node in finder.found:
        found.append(Place(replace(fault, number=seen[fault]), node))
        seen[fault] += 1
    return found


def place_of(fault, source):
    """Where the fault lies now; None if its statement has changed."""
    return next((place for place in places(source, fault.file) if place.fault == fault), None)


def words(fault):
    """A fault as data."""
    return asdict(fault)


class _Finder(ast.NodeVisitor):
    """Walks the code that runs, and knows the function, the statement and the loops around."""

    def __init__(self, file):
        self.found = []
        self._file = file
        self._names = []
        self._statement = ""
        self._loops = 0

    def visit(self, node):
        if isinstance(node, ast.stmt):
            outer, self._statement = self._statement, _first_line(node)
            if self._loops and isinstance(node, SIMPLE) and not _is_docstring(node):
                self._add("statement", node, "pass")
            super().visit(node)
            self._statement = outer
        else:
            super().visit(node)

    def _add(self, kind, node, after):
        text = after if isinstance(after, str) else ast.unparse(after)
        function, before = ".".join(self._names), ast.unparse(node)
        fault = Fault(self._file, function, kind, self._statement, before, text)
        self.found.append((fault, node))

    def _skip(self, node):
        """Docstrings, messages and types are not code."""

    visit_Raise = visit_JoinedStr = visit_Import = visit_ImportFrom = _skip

    def visit_ClassDef(self, node):
        self._within(node, node.body)

    def visit_FunctionDef(self, node):
        if node.name not in UNMUTATED_FUNCTIONS:
            defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one]
            self._within(node, [*defaults, *node.body])

    def _within(self, node, parts):
        loops, self._loops = self._loops, 0
        self._names.append(node.name)
        for part in parts:
            self.visit(part)
        self._names.pop()
        self._loops = loops

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_Expr(self, node):
        if not _is_docstring(node):
            self.generic_visit(node)

    def visit_For(self, node):
        self.visit(node.iter)
        self._loop(node)

    def visit_While(self, node):
        self._negate(node.test)
        self.visit(node.test)
        self._loop(node)

    def _loop(self, node):
        self._loops += 1
        for part in (*node.body, *node.orelse):
            self.visit(part)
        self._loops -= 1

    def _negate(self, test):
        self._add("condition", test, f"not ({ast.unparse(test)})")

    def visit_If(self, node):
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node):
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node):
        for number, op in enumerate(node.ops):
            if type(op) in FLIPPED:
                after = copy.deepcopy(node)
                after.ops[number] = FLIPPED[type(op)]()
                self._add("comparison", node, after)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        after = copy.deepcopy(node)
        after.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("connective", node, after)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._operator(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if not _is_text(node.value):
            self._operator(node)
        self.generic_visit(node)

    def _operator(self, node):
        """A sum's sign, or a quotient that is not rounded."""
        if isinstance(node.op, ast.Add | ast.Sub):
            after = copy.copy(node)
            after.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            self._add("sum", node, after)
        elif isinstance(node.op, ast.FloorDiv):
            after = copy.copy(node)
            after.op = ast.Div()
            self._add("rounding", node, after)

    def visit_UnaryOp(self, node):
        if _is_rounded_up(node):
            quotient = node.operand
            after = ast.BinOp(quotient.left.operand, quotient.op, quotient.right)
            self._add("rounding", node, after)
        self.generic_visit(node)

    def visit_Constant(self, node):
        if type(node.value) in (int, float):
            for after in (node.value + 1, node.value - 1):
                if after != node.value:  # 3e38 + 1 is 3e38
                    self._add("constant", node, repr(after))

    def visit_Call(self, node):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in SWAPPED:
            after = copy.deepcopy(node)
            field = "id" if isinstance(after.func, ast.Name) else "attr"
            setattr(after.func, field, SWAPPED[name])
            self._add("extreme", node, after)
        if name == "ceil" and node.args:
            self._add("rounding", node, f"int({ast.unparse(node.args[0])})")
        self.generic_visit(node)

    def visit_Return(self, node):
        call = node.value
        if isinstance(call, ast.Call) and call.args and not isinstance(call.args[0], ast.Starred):
            self._add("result", call, call.args[0])
        self.generic_visit(node)


def _first_line(node):
    """Of a statement, without what lies within it."""
    if hasattr(node, "body"):
        node = copy.copy(node)
        node.body, node.orelse = [ast.Pass()], []
    return ast.unparse(node).splitlines()[0]


def _is_docstring(node):
    """A string that stands alone, or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_text(node):
    """A string, a list or a tuple: its `+` is no sum."""
    return isinstance(node, TEXTS) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_rounded_up(node):
    """``-(-a // b)``."""
    quotient = node.operand
    return (
        isinstance(node.op, ast.USub)
        and isinstance(quotient, ast.BinOp)
        and isinstance(quotient.op, ast.FloorDiv)
        and isinstance(quotient.left, ast.UnaryOp)
        and isinstance(quotient.left.op, ast.USub)
    )
