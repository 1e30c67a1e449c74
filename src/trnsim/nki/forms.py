"""The forms of NKI that a source file uses: names, keywords and constructs, with their lines.

A name is spelled as programs usually import it: "nl.load", "nisa.dma_copy", "ncc.all_gather",
"nki.jit". A keyword is "nisa.dma_copy(dst_rmw_op=)". Constructs are other syntax that depends on
the version, such as a `while` over a register; the table of behaviours lists them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trnsim.absence import MODULES
from trnsim.behaviours import instructions, language, scalars
from trnsim.foreign_text import syntax_tree

_SHORT_NAMES: Final = {module: short for short, module in MODULES.items()}
_TYPING: Final = "nki.typing"
"""A module whose own name is a row of the table of behaviours."""
_REGISTER_CALLS: Final = frozenset(
    {
        "nisa.register_alloc",
        "ncc.rank_id",
        "ncc.collective_permute_implicit_current_processing_rank_id",
    }
)
"""Calls that give a register."""
_REGISTER_WORDS: Final = tuple(name.rpartition(".")[2] for name in sorted(_REGISTER_CALLS))
_CONSTRUCT_WORDS: Final = {
    language.WHILE_REGISTER.form: _REGISTER_WORDS,
    scalars.REGISTER_HAS_VALUE.form: _REGISTER_WORDS,
    language.STRING_BUFFERS.form: tuple(
        f"{quote}{buffer}{quote}"
        for buffer in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
        for quote in ("'", '"')
    ),
    language.BUILTIN_BUFFERS.form: ("sbuf.view", "psum.view", "hbm.view"),
    language.OLD_NAMESPACE.form: ("neuronxcc",),
    instructions.DMA_COMPUTE_SCALES_FIRST.form: ("dma_compute",),
    instructions.AFFINE_SELECT_OFFSET_THIRD.form: ("affine_select",),
    instructions.COMPUTE_INDIRECTION.form: ("indirect",),
}
"""For each construct, the words of which every file with it has one."""
_READERS: Final = frozenset({"range", "int", "bool", "float"})
"""Builtins of Python that need the values of their arguments while the kernel is traced."""
_BUILTIN_BUFFERS: Final = frozenset({"sbuf", "psum", "hbm"})
"""Names with a method `view` that a kernel may use without an import in older versions."""
_DMA_COMPUTE_OPERANDS: Final = 4
"""Positional operands of nisa.dma_compute whose order depends on the version."""
_AFFINE_SELECT_OPERANDS: Final = 6
"""Positional operands of nisa.affine_select whose order depends on the version."""
_ALLOCATIONS: Final = frozenset({"nl.ndarray", "nl.zeros"})
"""Functions whose third operand is the buffer."""
_BUFFER_POSITION: Final = 2
"""Position of the buffer among those operands, from 0."""


class Use(NamedTuple):
    """A form at a place of a source file.

    Attributes:
        form: its name as in the table of behaviours.
        line: line number, from 1.
        node: the form's node in the syntax tree of the file.
    """

    form: str
    line: int
    node: ast.AST


def uses_of(text: str, function: tuple[str, int] | None = None) -> list[Use]:
    """The forms that a file of Python uses, in the order of the syntax tree.

    Args:
        text: the file.
        function: name and first line (decorators included) of a function of the file. Only forms in
            this function, and in functions and classes that it reaches, count. None for the whole
            file.

    Raises:
        SyntaxError: if the text is not Python.
    """
    reader = Reader(syntax_tree(text))
    roots = reader.reachable(*function) if function is not None else [reader.tree]
    uses = [
        Use(form, getattr(node, "lineno", 0), node)
        for root in roots
        for form, node in reader.forms(root)
    ]
    return sorted(uses, key=lambda use: use.line)


def words_of(form: str) -> tuple[str, ...]:
    """The words of which every file that uses `form` has one."""
    return _CONSTRUCT_WORDS.get(form) or tuple(re.findall(r"\w+", form)[-1:])


def definitions_of(text: str, function: tuple[str, int]) -> list[ast.AST]:
    """The definition of a function of a file, and the definitions that it names, transitively.

    Raises:
        SyntaxError: if the file is no Python.
    """
    return Reader(syntax_tree(text)).reachable(*function)


class Reader:
    """The walk of a file's syntax tree.

    Attributes:
        tree: the syntax tree of the file.
        names: imported name in the file -> full dotted name, such as "nki.language.load".
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names: dict[str, str] = {}
        self._within: dict[ast.AST, list[ast.AST]] = {}
        self._register_names: set[str] = set()
        nodes = self._nodes(tree)
        self._bound_names = {
            node.id if isinstance(node, ast.Name) else node.arg
            for node in nodes
            if isinstance(node, ast.arg)
            or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        }
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._bind_module(alias)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in nodes:
            if isinstance(node, ast.Assign) and self._is_register(node.value):
                self._register_names |= {t.id for t in node.targets if isinstance(t, ast.Name)}

    def reachable(self, name: str, first_line: int) -> list[ast.AST]:
        """The definition of a function, and the file's definitions that it names, transitively.

        The whole file if it has no such function.
        """
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        definitions: dict[str, list[ast.AST]] = {}
        start: ast.AST | None = None
        for node in self._nodes(self.tree):
            if isinstance(node, kinds):
                definitions.setdefault(node.name, []).append(node)
                lines = [node.lineno, *(d.lineno for d in node.decorator_list)]
                if node.name == name and min(lines) <= first_line <= node.lineno:
                    start = node
            elif isinstance(node, ast.Lambda) and (name, node.lineno) == ("<lambda>", first_line):
                start = node
        if start is None:
            return [self.tree]
        nodes: list[ast.AST] = [start]
        pending_nodes: list[ast.AST] = [start]
        while pending_nodes:
            for node in self._nodes(pending_nodes.pop()):
                if isinstance(node, ast.Name | ast.Attribute):
                    label = node.id if isinstance(node, ast.Name) else node.attr
                    new_definitions = definitions.pop(label, []) if self._may_be_own(node) else []
                    new_definitions = [
                        definition for definition in new_definitions if definition is not start
                    ]
                    nodes += new_definitions
                    pending_nodes += new_definitions
        return nodes

    def forms(self, root: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        """Each form in a part of the tree with its node."""
        for node in self._nodes(root):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield from self._path_forms(f"{node.module}.{alias.name}", node)
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from self._path_forms(self._path(node), node)
            elif isinstance(node, ast.While) and self._is_register(node.test):
                yield language.WHILE_REGISTER.form, node
            elif any(map(self._is_register, _python_operands(node))):
                yield scalars.REGISTER_HAS_VALUE.form, node
            if isinstance(node, ast.Call):
                yield from self._call_forms(node)

    def short(self, node: ast.AST) -> str:
        """The usual spelling of a name of NKI; "" for other expressions."""
        return short_name(self._path(node))

    def _nodes(self, root: ast.AST) -> list[ast.AST]:
        """`root` and all nodes below it, which are found once."""
        nodes = self._within.get(root)
        if nodes is None:
            nodes = self._within[root] = list(ast.walk(root))
        return nodes

    def _path_forms(self, path: str, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        """The form of a full dotted name, with its node."""
        name = short_name(path)
        if name:
            yield name, node
        elif path.removeprefix("trnsim.") == _TYPING:
            yield _TYPING, node
        elif path.startswith("neuronxcc.nki.") and not path.startswith("neuronxcc.nki.typing"):
            yield language.OLD_NAMESPACE.form, node

    def _call_forms(self, node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
        """The keywords and constructs of a call, with their nodes."""
        name = self.short(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "indirect":
            yield instructions.COMPUTE_INDIRECTION.form, node
        if self._is_builtin_buffer(node.func):
            yield language.BUILTIN_BUFFERS.form, node
        if not name:
            return
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield f"{name}({keyword.arg}=)", keyword
            if keyword.arg == "buffer" and _is_text(keyword.value) and name.startswith("nl."):
                yield language.STRING_BUFFERS.form, keyword
        if name in _ALLOCATIONS and any(
            map(_is_text, node.args[_BUFFER_POSITION : _BUFFER_POSITION + 1])
        ):
            yield language.STRING_BUFFERS.form, node.args[_BUFFER_POSITION]
        if self._has_scales_third(name, node):
            yield instructions.DMA_COMPUTE_SCALES_FIRST.form, node
        if self._has_offset_third(name, node):
            yield instructions.AFFINE_SELECT_OFFSET_THIRD.form, node

    def _is_builtin_buffer(self, node: ast.AST) -> bool:
        """True for `sbuf.view` of a name that the file does not bind."""
        if not (isinstance(node, ast.Attribute) and node.attr == "view"):
            return False
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        return name in _BUILTIN_BUFFERS and name not in self.names and name not in self._bound_names

    def _may_be_own(self, node: ast.Name | ast.Attribute) -> bool:
        """True if a name may be a definition of the file, or a method of one."""
        return not self._path(node)

    def _has_scales_third(self, name: str, node: ast.Call) -> bool:
        """True for nisa.dma_compute(dst, srcs, scales, nl.add), and for scales in brackets."""
        if name != "nisa.dma_compute" or len(node.args) < _DMA_COMPUTE_OPERANDS:
            return False
        are_scales = isinstance(node.args[2], ast.List | ast.Tuple)
        return are_scales or self.short(node.args[3]).startswith("nl.")

    def _has_offset_third(self, name: str, node: ast.Call) -> bool:
        """True for nisa.affine_select(dst, pattern, offset, multiplier, tile, value).

        In the order of later versions the sixth operand is cmp_op, an operator of nl.
        """
        if name != "nisa.affine_select" or len(node.args) < _AFFINE_SELECT_OPERANDS:
            return False
        is_operator = self.short(node.args[_AFFINE_SELECT_OPERANDS - 1]).startswith("nl.")
        return not is_operator and all(keyword.arg != "offset" for keyword in node.keywords)

    def _path(self, node: ast.AST) -> str:
        """The full dotted name of ``nisa.engine.vector``; "" for other kinds of expression."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self._path(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def _bind_module(self, alias: ast.alias) -> None:
        if alias.asname:
            self.names[alias.asname] = alias.name
        else:
            root = alias.name.partition(".")[0]
            self.names[root] = root

    def _is_register(self, node: ast.AST) -> bool:
        """True for a call that gives a register, and for a name that holds one."""
        if isinstance(node, ast.Name):
            return node.id in self._register_names
        return isinstance(node, ast.Call) and self.short(node.func) in _REGISTER_CALLS


def _is_text(node: ast.AST) -> bool:
    """True for a string literal."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _python_operands(node: ast.AST) -> Sequence[ast.AST]:
    """The subexpressions whose values Python needs to run a node while the kernel is traced."""
    if isinstance(node, ast.If | ast.IfExp | ast.Assert):
        return [node.test]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.args if node.func.id in _READERS else []
    return []


def short_name(path: str) -> str:
    """The usual spelling of a full name: "nl.load" for "nki.language.load"; "" if not of NKI.

    The emulator's own name of the package, trnsim.nki, counts as NKI.
    """
    path = path.removeprefix("trnsim.")
    if path in _SHORT_NAMES:
        return ""
    for module, short in _SHORT_NAMES.items():
        if path.startswith(f"{module}."):
            return f"{short}.{path.removeprefix(module + '.')}"
    return ""
