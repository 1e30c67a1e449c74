"""Rewrites of loops on the device: nl.dynamic_range to nl.fori_loop, `while` to nl.while_loop."""

from __future__ import annotations

import ast

from trnsim.behaviours import language
from trnsim.nki.migrate.edits import Edit, Places
from trnsim.nki.migrate.file import Function, SourceFile
from trnsim.nki.migrate.rewrites import ByHand, call_of, free_name, own_spelling, rewrite
from trnsim.nki.migrate.scopes import leaving_statement, outer_names, reads_after
from trnsim.nki.migrate.traces import Trace

_LOWER_UPPER_STEP = 3


@rewrite("nl.dynamic_range", language.WHILE_REGISTER, language.DYNAMIC_LOOPS_WARN)
def _dynamic_loop(places: Places, trace: Trace) -> list[Edit]:
    """A loop becomes a function with its body, and a call of nl.fori_loop or nl.while_loop."""
    node = trace.node
    if isinstance(node, ast.While):
        return _while_loop_edits(places, node)
    file = places.file
    call = call_of(file, node)
    loop = file.parent(call)
    if not isinstance(loop, ast.For) or loop.iter is not call:
        raise ByHand("nl.dynamic_range is not the range of a `for` here")
    if trace.row is language.DYNAMIC_LOOPS_WARN and _computes(loop):
        raise ByHand("its body computes with the variable, which NKI 0.6 refuses in nl.fori_loop")
    return _fori_loop_edits(places, loop, call)


def _fori_loop_edits(places: Places, loop: ast.For, call: ast.Call) -> list[Edit]:
    """``for i in nl.dynamic_range(n):`` becomes ``def body(i):`` and nl.fori_loop(0, n, body)."""
    file = places.file
    _check(file, loop)
    if not isinstance(loop.target, ast.Name):
        raise ByHand("the loop has no variable of one name")
    if call.keywords or not 1 <= len(call.args) <= _LOWER_UPPER_STEP:
        raise ByHand("the bounds are not three values in their order")
    bounds = [file.code(bound) for bound in call.args[:2]]
    lower, upper = bounds if len(bounds) > 1 else ["0", *bounds]
    step = ""
    if len(call.args) == _LOWER_UPPER_STEP:
        value = call.args[2]
        number = value.value if isinstance(value, ast.Constant) else None
        if not isinstance(number, int) or number < 1:
            raise ByHand("the step is not written out as a positive number")
        step = "" if file.code(value) == "1" else f", step={file.code(value)}"
    name = free_name(file, loop, "body")
    call_text = f"{own_spelling(file, 'nl.fori_loop')}({lower}, {upper}, {name}{step})"
    return [
        _header(places, loop, call, f"def {name}({loop.target.id})"),
        places.insert_below(loop, ["", call_text]),
    ]


def _computes(loop: ast.For) -> bool:
    """True if a variable of the loop is an operand of arithmetic in its body."""
    names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return any(
        isinstance(operand, ast.Name) and operand.id in names
        for statement in loop.body
        for node in ast.walk(statement)
        for operand in _operands(node)
    )


def _operands(node: ast.AST) -> tuple[ast.expr, ...]:
    """The operands of arithmetic; none of another node."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return (node.operand,)
    return ()


def _while_loop_edits(places: Places, loop: ast.While) -> list[Edit]:
    """``while reg:`` becomes ``def body(r):``, which returns r, and nl.while_loop(reg, body)."""
    file = places.file
    _check(file, loop)
    assert isinstance(loop.test, ast.Name)  # noqa: S101  what the form is
    register = loop.test.id
    if reads_after(file, loop, register):
        raise ByHand(f"{register} is read after the loop")
    if loop.body[0].lineno == loop.lineno:
        raise ByHand("the body stands on the line of `while`")
    name, argument = free_name(file, loop, "body"), free_name(file, loop, "r", "register", "reg")
    register_uses = [
        child
        for statement in loop.body
        for child in ast.walk(statement)
        if isinstance(child, ast.Name) and child.id == register
    ]
    end = places.line_end(places.end(loop))
    indent, body_indent = places.indent(loop), places.indent(loop.body[0])
    call_text = f"{own_spelling(file, 'nl.while_loop')}({register}, {name})"
    tail = f"\n{body_indent}return {argument}\n\n{indent}{call_text}"
    return [
        _header(places, loop, loop.test, f"def {name}({argument})"),
        *(places.replacement(use, argument) for use in register_uses),
        Edit(end, end, tail),
    ]


def _header(
    places: Places, loop: ast.For | ast.While, last_expression: ast.expr, text: str
) -> Edit:
    """The edit that replaces a loop's header, up to its colon, with `text`.

    `last_expression` is the last expression of the header.
    """
    colon = places.text.index(":", places.end(last_expression))
    return Edit(places.start(loop), colon, text)


def _check(file: SourceFile, loop: ast.For | ast.While) -> None:
    """Refuse a loop whose body cannot become a function.

    Raises:
        ByHand: if the body leaves the loop (break, return), assigns names that the code around
            the loop uses, or runs under no_reorder.
    """
    if loop.orelse:
        raise ByHand("the loop has an `else`")
    statement = leaving_statement(loop.body)
    if statement:
        raise ByHand(f"its body has `{statement}`")
    names = outer_names(file, loop)
    if names:
        raise ByHand(f"its body binds {', '.join(names)} for the code around it")
    for ancestor in file.ancestors(loop):
        if isinstance(ancestor, Function):
            return
        contexts = ancestor.items if isinstance(ancestor, ast.With) else []
        for item in contexts:
            call = item.context_expr
            if isinstance(call, ast.Call) and file.short(call.func) == "nl.no_reorder":
                raise ByHand("it runs under nl.no_reorder, where nl.fori_loop may not")
