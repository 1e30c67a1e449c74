"""Scan of a Python file as a syntax tree: it is never imported or run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trnsim.decide.scan.findings import ScanFinding
from trnsim.decide.scan.operators import NO_LOWERING_ADVICE, Lowering, is_function, lowering
from trnsim.decide.scan.packages import KERNEL_NAMES, PACKAGES, Remedy, longest_entry
from trnsim.foreign_text import syntax_tree

_FRAMEWORK_BY_PACKAGE: Final = {"torch": "pytorch", "jax": "jax", "tensorflow": "tensorflow"}
_DEVICE_PATTERN: Final = re.compile(r"cuda(:\d+)?|nccl")
_DEVICE_MODULES: Final = ("torch.cuda", "torch.backends.cudnn", "torch.backends.cuda")
_DEVICE_ADVICE: Final = "name the device 'neuron', or take it from torch.accelerator"
_CUDA_METHODS: Final = ("cuda",)
_TENSOR_METHODS: Final = frozenset(
    {
        "bincount", "cholesky", "cummax", "cummin", "geqrf", "index_reduce", "index_reduce_",
        "logcumsumexp", "logdet", "masked_select", "multinomial", "nonzero", "renorm", "slogdet",
        "svd", "unique_consecutive",
    }
)  # fmt: skip
"""Methods that few objects but tensors have: a call by such a name is treated as a tensor's."""


@dataclass
class ScannedProgram:
    """Findings and counts of a file; it has the attributes of `ScanFindings`."""

    findings: set[ScanFinding] = field(default_factory=set[ScanFinding])
    lowered: int = 0
    unlowered: int = 0
    unknown: set[str] = field(default_factory=set[str])
    frameworks: set[str] = field(default_factory=set[str])


def read_program(file: str, source: bytes) -> ScannedProgram:
    """Findings and counts of the Python source `file`."""
    try:
        tree = syntax_tree(source)
    except SyntaxError as error:
        return unreadable(file, error.lineno or 1, f"no Python of this version: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return unreadable(file, 1, f"no Python: {error or type(error).__name__}")
    reader = _Reader(file)
    reader.read(tree)
    return reader.program


def unreadable(file: str, line: int, reason: str) -> ScannedProgram:
    """A file that could not be checked, with the reason as a finding."""
    advice = "look through it by hand: nothing in it was checked"
    return ScannedProgram({ScanFinding(file, line, "unreadable", reason, "S", advice)})


class _Reader:
    """Walk through a syntax tree.

    Attributes:
        file: name of the file in findings.
        program: findings and counts so far.
        names: full names of imported modules and objects, by the names that the file gives them.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.program = ScannedProgram()
        self.names: dict[str, str] = {}

    def read(self, tree: ast.Module) -> None:
        """Scan a module: imports first, as functions may stand above the imports that they use."""
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        inner_ids = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner_ids:
                self._name(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, local_name, full_name in _imports(node):
            self.names[local_name] = full_name
            package = name.partition(".")[0]
            if package in _FRAMEWORK_BY_PACKAGE:
                self.program.frameworks.add(_FRAMEWORK_BY_PACKAGE[package])
            if entry := longest_entry(name if local_name == full_name else full_name, PACKAGES):
                self._add(node.lineno, *entry)

    def _name(self, node: ast.Attribute | ast.Name) -> None:
        """Add a finding for a name that creates a kernel or belongs to a CUDA module."""
        full_name = self._full_name(node)
        if full_name is None:
            return
        if entry := longest_entry(full_name, KERNEL_NAMES):
            self._add(node.lineno, *entry)
        elif full_name.startswith(tuple(f"{module}." for module in _DEVICE_MODULES)):
            self._device(node.lineno, full_name)

    def _call(self, node: ast.Call) -> None:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            text = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(text, str) and _DEVICE_PATTERN.fullmatch(text):
                self._device(argument.lineno, repr(text))
        full_name = self._full_name(node.func)
        if full_name is not None:
            self._operator(node.lineno, full_name)
        elif isinstance(node.func, ast.Attribute):
            self._method(node.lineno, node.func.attr)

    def _method(self, line: int, name: str) -> None:
        if "pytorch" not in self.program.frameworks:
            return
        if name in _CUDA_METHODS:
            self._device(line, f".{name}()")
        elif name in _TENSOR_METHODS:
            self._operator(line, f"torch.{name}")

    def _operator(self, line: int, name: str) -> None:
        """Count a call of a PyTorch function, and add a finding if it has no lowering."""
        if not name.startswith("torch.") or name.startswith(_DEVICE_MODULES):
            return
        support, missing_names = lowering(name)
        if support is Lowering.LOWERED:
            self.program.lowered += 1
        elif support is Lowering.MISSING:
            self.program.unlowered += 1
            advice = NO_LOWERING_ADVICE.format(", ".join(missing_names))
            self.program.findings.add(ScanFinding(self.file, line, "operator", name, "M", advice))
        elif is_function(name):
            self.program.unknown.add(name)

    def _device(self, line: int, name: str) -> None:
        self.program.findings.add(ScanFinding(self.file, line, "device", name, "S", _DEVICE_ADVICE))

    def _add(self, line: int, name: str, remedy: Remedy) -> None:
        self.program.findings.add(
            ScanFinding(self.file, line, remedy.kind, name, remedy.effort, remedy.advice)
        )

    def _full_name(self, node: ast.expr) -> str | None:
        """Full name of an expression by the imports ("torch.linalg.svd"); None without a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return None
        return ".".join([self.names[node.id], *reversed(parts)])


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Imports of a statement: module, local name, and full name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            package = alias.name.partition(".")[0]
            yield alias.name, alias.asname or package, alias.name if alias.asname else package
    elif node.module is not None and not node.level:
        for alias in node.names:
            full_name = f"{node.module}.{alias.name}"
            yield node.module, alias.asname or alias.name, full_name
