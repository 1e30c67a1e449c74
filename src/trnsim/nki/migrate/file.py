"""A file of kernels: its text, its syntax tree, and facts on tensors that the text states."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from trnsim.foreign_text import syntax_tree
from trnsim.nki.forms import Reader

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_ALLOCATORS: Final = {
    f"nl.{name}": position
    for name, position in (("ndarray", 1), ("zeros", 1), ("ones", 1), ("empty", 1), ("full", 2))
}
"""Functions that allocate a tensor, with the position of their dtype."""
_VIEWS: Final = {
    "ap",
    "reshape",
    "permute",
    "slice",
    "select",
    "expand_dim",
    "squeeze",
    "broadcast",
}
"""Methods of a tensor that return a view with the same memory and dtype."""


@dataclass(frozen=True)
class TensorText:
    """Facts that a file states of a tensor; a fact that it does not state is "" or None.

    Attributes:
        buffer: its memory, "nl.psum".
        dtype: its dtype, "nl.int32", or "x.dtype".
        rank: its number of dimensions.
        is_view: true if it is a view of a tensor, or a part of one.
        buffer_node: the expression of its buffer.
    """

    buffer: str = ""
    dtype: str = ""
    rank: int | None = None
    is_view: bool | None = None
    buffer_node: ast.AST | None = None


_UNKNOWN: Final = TensorText()


class SourceFile:
    """The text of a file with its syntax tree.

    Attributes:
        text: the text.
        tree: its syntax tree.
        nodes: all nodes of the tree.
        reader: the names of NKI in it.
    """

    def __init__(self, text: str) -> None:
        """A file of this text.

        Raises:
            SyntaxError: for a text that is not Python.
        """
        self.text = text
        self.tree = syntax_tree(text)
        self.reader = Reader(self.tree)
        self.nodes = list(ast.walk(self.tree))
        self._named_tensors: dict[tuple[Function, str], TensorText] = {}
        self._roots: dict[Function, list[ast.AST]] = {}
        self._reached_nodes: dict[Function, frozenset[ast.AST]] = {}
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def functions(self) -> list[Function]:
        """All functions of the file, in the order of their lines."""
        functions = [node for node in self.nodes if isinstance(node, Function)]
        return sorted(functions, key=lambda node: node.lineno)

    @cached_property
    def kernels(self) -> list[Function]:
        """Functions that are decorated by nki.jit."""
        return [node for node in self.functions if self.jit_of(node) is not None]

    @cached_property
    def forms(self) -> list[tuple[str, ast.AST]]:
        """The forms of the file with their nodes."""
        return list(self.reader.forms(self.tree))

    def jit_of(self, function: Function) -> ast.expr | None:
        """The decorator nki.jit of a function; None if it has none."""
        for decorator in function.decorator_list:
            callee = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self.short(callee) in {"nki.jit", "nki.compiler.jit"}:
                return decorator
        return None

    def roots_of(self, kernel: Function) -> list[ast.AST]:
        """The definition of a kernel, and the file's definitions that it names, transitively."""
        if kernel not in self._roots:
            lines = [kernel.lineno, *(decorator.lineno for decorator in kernel.decorator_list)]
            self._roots[kernel] = self.reader.reachable(kernel.name, min(lines))
        return self._roots[kernel]

    def reached_from(self, kernel: Function) -> frozenset[ast.AST]:
        """The nodes of the definitions in `roots_of(kernel)`."""
        if kernel not in self._reached_nodes:
            nodes = (node for root in self.roots_of(kernel) for node in ast.walk(root))
            self._reached_nodes[kernel] = frozenset(nodes)
        return self._reached_nodes[kernel]

    def short(self, node: ast.AST) -> str:
        """The usual spelling of a name of NKI, "nl.load"; "" for other expressions."""
        return self.reader.short(node)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of functions of NKI by their usual spelling."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and self.short(node.func) in names:
                yield node

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that contains `node`; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, the innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that contains `node`; `node` itself if it is a statement."""
        for candidate in (node, *self.ancestors(node)):
            if isinstance(candidate, ast.stmt):
                return candidate
        return None

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function around `node`."""
        return next(
            (ancestor for ancestor in self.ancestors(node) if isinstance(ancestor, Function)), None
        )

    def code(self, node: ast.AST) -> str:
        """The text of a node."""
        return ast.get_source_segment(self.text, node) or ""

    # Tensors

    def tensor(self, node: ast.AST | None) -> TensorText:
        """Facts that the source states on the tensor to which an expression evaluates."""
        if isinstance(node, ast.Name):
            return self._tensor_of_name(node)
        if isinstance(node, ast.Subscript):
            return self._part(node)
        if isinstance(node, ast.Call) and self.short(node.func) in _ALLOCATORS:
            return self._allocation(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = self.tensor(node.func.value)
            if node.func.attr == "view":
                dtype = self._dtype(argument(node, 0, "dtype"))
                return replace(base, dtype=dtype, is_view=True, rank=None)
            if node.func.attr in _VIEWS:
                return replace(base, is_view=True, rank=None)
        return _UNKNOWN

    def allocation_of(self, node: ast.Name) -> ast.Call | None:
        """The call that allocates the only tensor assigned to a name; None for other names."""
        owner = self.function_of(node)
        values = self._assignments.get((owner, node.id), []) if owner is not None else []
        value = values[0] if len(values) == 1 else None
        if isinstance(value, ast.Call) and self.short(value.func) in _ALLOCATORS:
            return value
        return None

    def _tensor_of_name(self, node: ast.Name) -> TensorText:
        """Facts that the source states on the tensor of a name, here or in an outer function."""
        function: Function | None = self.function_of(node)
        while function is not None:
            key = function, node.id
            values = self._assignments.get(key)
            if values is not None and key not in self._named_tensors:
                # Names may be bound to each other: this entry ends the recursion.
                self._named_tensors[key] = _UNKNOWN
                self._named_tensors[key] = self._common_facts(values)
            if values is not None:
                return self._named_tensors[key]
            function = self.function_of(function)
        return _UNKNOWN

    def _common_facts(self, values: list[ast.expr | None]) -> TensorText:
        """Facts that all values of a name share."""
        facts, *others = [self.tensor(value) for value in values]
        for other in others:
            unshared_fields: dict[str, Any] = {
                field.name: field.default
                for field in fields(facts)
                if getattr(facts, field.name) != getattr(other, field.name)
            }
            facts = replace(facts, **unshared_fields)
        return facts

    @cached_property
    def _assignments(self) -> dict[tuple[Function, str], list[ast.expr | None]]:
        """(function, name) -> the expressions assigned to it; None for any other binding."""
        values: dict[tuple[Function, str], list[ast.expr | None]] = {}
        for function in self.functions:
            arguments = function.args
            for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                values.setdefault((function, parameter.arg), []).append(None)
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                owner = self.function_of(node)
                if owner is not None:
                    parent = self.parent(node)
                    is_plain = isinstance(parent, ast.Assign) and node in parent.targets
                    value = parent.value if isinstance(parent, ast.Assign) and is_plain else None
                    is_recursive = value is not None and any(
                        isinstance(child, ast.Name) and child.id == node.id
                        for child in ast.walk(value)
                    )
                    values.setdefault((owner, node.id), []).append(None if is_recursive else value)
        return values

    def _allocation(self, node: ast.Call) -> TensorText:
        """Facts that the source states on the tensor that a call such as nl.ndarray allocates."""
        position = _ALLOCATORS[self.short(node.func)]
        buffer = argument(node, position + 1, "buffer")
        shape = argument(node, 0, "shape")
        is_written_out = isinstance(shape, ast.Tuple | ast.List)
        return TensorText(
            buffer=self.buffer(buffer) if buffer is not None else "nl.sbuf",
            dtype=self._dtype(argument(node, position, "dtype")),
            rank=len(shape.elts) if is_written_out else None,  # type: ignore[union-attr]
            is_view=False,
            buffer_node=buffer,
        )

    def buffer(self, node: ast.AST) -> str:
        """The memory that an expression names: "nl.sbuf"."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return f"nl.{node.value}"
        return self.short(node)

    def _dtype(self, node: ast.AST | None) -> str:
        if node is None:
            return ""
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            return self.tensor(node.value).dtype or self.code(node)
        return self.short(node)

    def _part(self, node: ast.Subscript) -> TensorText:
        """Facts that the source states on the part of a tensor that an index selects."""
        base = self.tensor(node.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        spans = [item for item in indices if isinstance(item, ast.Slice) or _is_ellipsis(item)]
        integer_indices = [item for item in indices if item not in spans]
        rank = base.rank
        if rank is not None and integer_indices:
            is_counted = all(isinstance(item, ast.Constant) for item in integer_indices)
            rank = rank - len(integer_indices) if is_counted else None
        is_whole = all(map(_is_full, indices))
        return replace(base, rank=rank, is_view=base.is_view if is_whole else True)


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _is_full(node: ast.AST) -> bool:
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None and node.step is None
    return _is_ellipsis(node)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument of a call by its position or its name; None if it is left out."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    has_star = any(isinstance(value, ast.Starred) for value in call.args[: position + 1])
    return call.args[position] if position < len(call.args) and not has_star else None
