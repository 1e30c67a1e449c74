"""Rewrites of nisa.dma_copy: from PSUM, and read-modify-write."""

from __future__ import annotations

import ast
from typing import Final

from trnsim.behaviours import instructions
from trnsim.nki.migrate.edits import Edit, Places
from trnsim.nki.migrate.file import SourceFile, argument
from trnsim.nki.migrate.rewrites import ByHand, call_of, free_name, own_spelling, rewrite
from trnsim.nki.migrate.traces import Trace

_SHARED_KEYWORDS: Final = {"dst", "src", "unique_indices", "name", "dst_rmw_op"}
"""Keywords of dma_copy that have an equivalent in dma_compute."""


@rewrite(instructions.DMA_READS_PSUM)
def _copy_from_psum(places: Places, trace: Trace) -> list[Edit]:
    """A DMA from PSUM becomes a tensor_copy to a new SBUF tile and a DMA from that tile."""
    file, call = places.file, call_of(places.file, trace.node)
    source, statement = argument(call, 1, "src"), file.statement(call)
    base = source.value if isinstance(source, ast.Subscript) else source
    creation = file.allocation_of(base) if isinstance(base, ast.Name) else None
    shape = argument(creation, 0, "shape") if creation is not None else None
    dtype = argument(creation, 1, "dtype") if creation is not None else None
    if not isinstance(statement, ast.Expr) or source is None or base is None:
        raise ByHand("the copy is part of an expression")
    if shape is None or dtype is None:
        raise ByHand("the shape of the tile in PSUM is not written out")
    name = free_name(file, call, "sbuf_temp")
    index = places.text[places.end(base) : places.end(source)]
    arguments = (
        f"{file.code(shape)}, dtype={file.code(dtype)}, buffer={own_spelling(file, 'nl.sbuf')}"
    )
    lines = [
        f"{name} = {own_spelling(file, 'nl.ndarray')}({arguments})",
        f"{own_spelling(file, 'nisa.tensor_copy')}(dst={name}{index}, src={file.code(source)})",
    ]
    return [places.insert_above(statement, lines), places.replacement(base, name)]


@rewrite("nisa.dma_copy(dst_rmw_op=)")
def _read_modify_write(places: Places, trace: Trace) -> list[Edit]:
    """``dma_copy(dst, src, dst_rmw_op=op)`` becomes ``dma_compute(dst, [src, dst], op)``."""
    file, call = places.file, call_of(places.file, trace.node)
    target, source = argument(call, 0, "dst"), argument(call, 1, "src")
    operation = argument(call, len(call.args), "dst_rmw_op")
    if target is None or source is None or operation is None or call.args[2:]:
        raise ByHand("its arguments are passed on")
    if isinstance(operation, ast.Constant) and operation.value is None:
        return places.arguments(call, [trace.node])
    other_keywords = {keyword.arg for keyword in call.keywords} - _SHARED_KEYWORDS
    if other_keywords:
        raise ByHand(f"nisa.dma_compute has no {', '.join(map(str, other_keywords))}=")
    if file.short(operation).startswith("nl."):
        return _compute_edits(places, call, file.code(operation))
    return _branch_edits(places, call, operation)


def _compute_edits(places: Places, call: ast.Call, operation: str) -> list[Edit]:
    """The edits that turn a dma_copy with dst_rmw_op into a dma_compute with `operation`."""
    file = places.file
    source, target = argument(call, 1, "src"), argument(call, 0, "dst")
    operator_keyword = next(keyword for keyword in call.keywords if keyword.arg == "dst_rmw_op")
    assert source is not None  # noqa: S101  `_read_modify_write` has checked it
    assert target is not None  # noqa: S101  likewise
    srcs = f"[{file.code(source)}, {file.code(target)}]"
    src_keyword = next((keyword for keyword in call.keywords if keyword.arg == "src"), None)
    return [
        places.replacement(call.func, own_spelling(file, "nisa.dma_compute")),
        places.replacement(src_keyword or source, f"srcs={srcs}" if src_keyword else srcs),
        places.replacement(operator_keyword, f"reduce_op={operation}"),
    ]


def _branch_edits(places: Places, call: ast.Call, operation: ast.expr) -> list[Edit]:
    """``dst_rmw_op=None if test else op`` becomes an ``if`` with a dma_copy and a dma_compute.

    AWS's migration guide does so for loops whose first turn copies and whose later turns add.
    """
    file, statement = places.file, _statement(places.file, call)
    choice, assignment = _choice(file, statement, operation)
    if "#" in places.text[places.start(call) : places.end(call)]:
        raise ByHand("the call has comments of its own")
    is_copy_first = isinstance(choice.body, ast.Constant)
    operation = choice.orelse if is_copy_first else choice.body
    test = file.code(choice.test)
    target = file.code(argument(call, 0, "dst") or call)
    source_node = argument(call, 1, "src")
    source = file.code(source_node or call)
    lines = []
    if not isinstance(source_node, ast.Name):
        name = free_name(file, call, "src_access")
        lines, source = [f"{name} = {source}"], name
    keyword_text = "".join(
        f", {keyword.arg}={file.code(keyword.value)}"
        for keyword in call.keywords
        if keyword.arg in {"unique_indices", "name"}
    )
    copy_text = f"    {own_spelling(file, 'nisa.dma_copy')}(dst={target}, src={source})"
    compute_text = (
        f"    {own_spelling(file, 'nisa.dma_compute')}(dst={target}, srcs=[{source}, {target}], "
        f"reduce_op={file.code(operation)}{keyword_text})"
    )
    first_branch, second_branch = (
        (copy_text, compute_text) if is_copy_first else (compute_text, copy_text)
    )
    lines += [f"if {test}:", first_branch, "else:", second_branch]
    indent = places.indent(statement)
    edits = [places.replacement(statement, f"\n{indent}".join(lines))]
    if assignment is not None:
        start = places.line_start(places.start(assignment))
        edits.append(Edit(start, places.line_end(places.end(assignment)) + 1, ""))
    return edits


def _statement(file: SourceFile, call: ast.Call) -> ast.Expr:
    """The statement that is this call alone.

    Raises:
        ByHand: if there is none.
    """
    statement = file.parent(call)
    if not isinstance(statement, ast.Expr):
        raise ByHand("the copy is part of an expression")
    return statement


def _choice(
    file: SourceFile, statement: ast.stmt, operation: ast.expr
) -> tuple[ast.IfExp, ast.Assign | None]:
    """The conditional ``None if ... else nl.add`` of an operation, and its assignment.

    The assignment is None if the conditional stands in the call. Only the call may read its name.

    Raises:
        ByHand: for any other operation.
    """
    assignment: ast.Assign | None = None
    if isinstance(operation, ast.Name):
        scope: ast.AST = file.function_of(statement) or file.tree
        names = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == operation.id]
        assigned_name = next((n for n in names if isinstance(n.ctx, ast.Store)), None)
        owner = file.parent(assigned_name) if assigned_name is not None else None
        is_private = len(names) == len((assigned_name, operation)) and isinstance(owner, ast.Assign)
        if not is_private or not isinstance(owner, ast.Assign):
            raise ByHand(f"dst_rmw_op={operation.id} is not an operation for all calls")
        if file.parent(owner) is not file.parent(statement):
            raise ByHand(f"{operation.id} is bound in another block")
        assignment, operation = owner, owner.value
    if not isinstance(operation, ast.IfExp):
        raise ByHand("dst_rmw_op is not an operation for all calls")
    branches = (operation.body, operation.orelse)
    if sum(isinstance(branch, ast.Constant) and branch.value is None for branch in branches) != 1:
        raise ByHand("dst_rmw_op is one of several operations")
    return operation, assignment


@rewrite("nisa.tensor_copy_dynamic_src", "nisa.tensor_copy_dynamic_dst")
def _dynamic_copy(places: Places, trace: Trace) -> list[Edit]:
    """``tensor_copy_dynamic_src(dst, x.ap(...))`` becomes ``tensor_copy(dst, x.ap(...))``."""
    file, call = places.file, call_of(places.file, trace.node)
    position, name = (1, "src") if trace.row.name.endswith("src") else (0, "dst")
    pattern = argument(call, position, name)
    method = pattern.func if isinstance(pattern, ast.Call) else None
    is_pattern = isinstance(method, ast.Attribute) and method.attr == "ap"
    if call.func is not trace.node or not is_pattern:
        raise ByHand(f"{name} is no tensor.ap(pattern, scalar_offset=...)")
    return [places.replacement(trace.node, own_spelling(file, "nisa.tensor_copy"))]
