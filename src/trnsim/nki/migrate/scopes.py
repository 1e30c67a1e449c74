"""Names that a block of statements binds: which of them are local to the block."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trnsim.nki.migrate.file import Function, SourceFile

_LEAVING_STATEMENTS: Final = (
    ast.Break,
    ast.Continue,
    ast.Return,
    ast.Yield,
    ast.YieldFrom,
    ast.Global,
    ast.Nonlocal,
    ast.Await,
)
"""Statements that cannot move to a function: they leave it, or bind names outside of it."""
_CONDITIONAL_STATEMENTS: Final = (ast.If, ast.While, ast.Try, ast.Match)
"""Statements that may skip their block."""


class NameUse(NamedTuple):
    """A read or a binding of a name.

    Attributes:
        is_bound: true for a binding, false for a read.
        is_sure: false if the use may be skipped, as in the block of an `if`.
    """

    name: str
    is_bound: bool
    is_sure: bool = True


def leaving_statement(body: Sequence[ast.stmt]) -> str:
    """The kind of the first statement that cannot move to a function, "break"; "" for none."""
    pending_nodes: list[tuple[ast.AST, bool]] = [(statement, False) for statement in body]
    while pending_nodes:
        node, is_inner_loop = pending_nodes.pop()
        is_of_loop = isinstance(node, ast.Break | ast.Continue)
        if isinstance(node, _LEAVING_STATEMENTS) and not (is_of_loop and is_inner_loop):
            return type(node).__name__.lower()
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            is_loop = is_inner_loop or isinstance(node, ast.For | ast.While)
            pending_nodes += [(child, is_loop) for child in ast.iter_child_nodes(node)]
    return ""


def outer_names(file: SourceFile, loop: ast.For | ast.While) -> list[str]:
    """Names that a loop's body binds and that are not local to the body.

    A name is local if each turn of the loop binds it before reading it, and the code after the loop
    (and in the next turn of an outer loop) binds it before reading it.
    """
    body_uses = list(_uses(loop.body))
    if isinstance(loop, ast.For):
        body_uses = [*_uses([loop.target]), *body_uses]
    later_uses = list(_uses_after(file, loop))
    outside_names = {use.name for use in _uses_outside(file, loop)}
    names = []
    for name in dict.fromkeys(use.name for use in body_uses if use.is_bound):
        first_use = next(use for use in body_uses if use.name == name)
        next_use = next((use for use in later_uses if use.name == name), None)
        is_own = first_use.is_bound and (first_use.is_sure or name not in outside_names)
        if not is_own or (next_use is not None and not next_use.is_bound):
            names.append(name)
    return names


def reads_after(file: SourceFile, loop: ast.For | ast.While, name: str) -> bool:
    """True if a name is read after a loop before it is bound again."""
    next_use = next((use for use in _uses_after(file, loop) if use.name == name), None)
    return next_use is not None and not next_use.is_bound


def _uses_after(file: SourceFile, loop: ast.stmt) -> Iterator[NameUse]:
    """Uses of names after a statement of a function, then in the next turns of outer loops."""
    node: ast.AST = loop
    outer_loops: list[ast.For | ast.While] = []
    while not isinstance(node, Function | ast.Module):
        parent = file.parent(node)
        if parent is None:
            break
        for block in _blocks(parent):
            if node in block:
                yield from _uses(block[block.index(node) + 1 :])
        if isinstance(parent, ast.For | ast.While):
            outer_loops.append(parent)
        node = parent
    for outer_loop in outer_loops:
        yield from _uses([outer_loop])


def _uses_outside(file: SourceFile, loop: ast.stmt) -> Iterator[NameUse]:
    """Uses of names in the function outside of a statement."""
    scope = file.function_of(loop) or file.tree
    loop_nodes = set(ast.walk(loop))
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and node not in loop_nodes:
            yield NameUse(node.id, isinstance(node.ctx, ast.Store))
        elif isinstance(node, ast.arg):
            yield NameUse(node.arg, is_bound=True)


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    """The lists of statements of a node: body, orelse and others."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list):
            yield value


def _uses(nodes: Sequence[ast.AST], *, is_sure: bool = True) -> Iterator[NameUse]:
    """The names of nodes in the order of evaluation."""
    for node in nodes:
        yield from _uses_of(node, is_sure)


def _uses_of(node: ast.AST, is_sure: bool) -> Iterator[NameUse]:
    """The uses of names in a node, in the order of evaluation."""
    if isinstance(node, ast.Name):
        yield NameUse(node.id, isinstance(node.ctx, ast.Store), is_sure)
    elif isinstance(node, ast.Assign):
        yield from _uses([node.value, *node.targets], is_sure=is_sure)
    elif isinstance(node, ast.AnnAssign):
        parts = [node.value] if node.value is not None else []
        yield from _uses([*parts, node.target], is_sure=is_sure)
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            yield NameUse(node.target.id, is_bound=False)
        yield from _uses([node.value, node.target], is_sure=is_sure)
    elif isinstance(node, ast.For):
        yield from _uses([node.iter], is_sure=is_sure)
        yield from _uses([node.target, *node.body, *node.orelse], is_sure=is_sure)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        yield from _free_names(node)
    elif isinstance(node, Function | ast.ClassDef):
        yield from _free_names(node)
        yield NameUse(node.name, is_bound=True, is_sure=is_sure)
    else:
        is_child_sure = is_sure and not isinstance(node, _CONDITIONAL_STATEMENTS)
        yield from _uses(list(ast.iter_child_nodes(node)), is_sure=is_child_sure)


def _free_names(node: ast.AST) -> Iterator[NameUse]:
    """The names that a function, a class or a comprehension reads from the scope around it."""
    name_nodes = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    bound_names = {child.id for child in name_nodes if isinstance(child.ctx, ast.Store)}
    bound_names |= {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    for child in name_nodes:
        if child.id not in bound_names:
            yield NameUse(child.id, is_bound=False)
