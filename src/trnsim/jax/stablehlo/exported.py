"""Programs of JAX in files: an artifact of `jax.export`, StableHLO or HLO, as text or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.compiler.stand_in import refuse_neff
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput
from trnsim.graph import Graph
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.hlo import HLO_FIX, kind_of_hlo, stablehlo_of_hlo
from trnsim.jax.stablehlo.importing import ImportedModule, graph_of

_MAGIC: Final = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""
_LENGTH: Final = 4
"""Bytes of the length before a vector in a flatbuffer, which `jax.export` writes."""
_EXPORT: Final = "save the bytes of jax.export.export(jax.jit(f))(*args).serialize()"


@dataclass(frozen=True)
class ProgramGraph:
    """A program of JAX as a model's graph (see `trnsim.device.model_report.FrameworkGraph`).

    Attributes:
        weights: the value numbers of its constants, and of the arguments named as weights.
        names: the names of its inputs, by value number.
        operators: StableHLO's operations, in order.
        origins: the primitive and the line that a value came from, by value number.
        missing: always empty: an operation without a lowering is refused.
    """

    graph: Graph = field(repr=False)
    weights: frozenset[int]
    names: dict[int, str]
    operators: tuple[str, ...]
    origins: dict[int, FrameworkCall] = field(repr=False)
    missing: tuple[str, ...] = ()
    calls: tuple[FrameworkCall, ...] = ()

    @classmethod
    def of(cls, module: ImportedModule, weights: Sequence[str] = ()) -> ProgramGraph:
        """The graph of an imported module.

        `weights` names the arguments of JAX's function that hold the weights: "params" for
        ``params['emb']``.

        Raises:
            BadInput: no argument has such a name.
        """
        arguments = {name: _argument_numbers(module, name) for name in weights}
        for name, numbers in arguments.items():
            if not numbers:
                raise BadInput(
                    f"no argument of the program is {name}; there are "
                    f"{', '.join(module.names[value.number] for value in module.inputs)}",
                    fix="name one of these, or what comes before their brackets",
                )
        weight_numbers = frozenset().union(module.constants, *arguments.values())
        origins = {
            value.number: FrameworkCall(node.origin.operator, node.name, {}, (), node.origin.line)
            for node in module.graph.nodes
            if node.origin is not None
            for value in node.results
        }
        return cls(
            module.graph,
            weight_numbers,
            module.names,
            module.operators,
            origins,
        )


def _argument_numbers(module: ImportedModule, name: str) -> set[int]:
    """The numbers of the arguments of that name, and of arguments within it."""
    return {
        value.number
        for value in module.inputs
        if (module.names[value.number] + "[").startswith((f"{name}[", f"{name}."))
    }


def of_bytes(content: bytes, path: str, title: str, weights: Sequence[str] = ()) -> Subject:
    """The program of JAX in the bytes of a file, which errors call `path`.

    Raises:
        BadInput: for bytes that are no program of StableHLO.
        NotModelled: for an operation that a graph does not have, with the program's line.
    """
    return Subject(title, ProgramGraph.of(graph_of(module_in(content, path)), weights))


def module_in(content: bytes, path: str) -> Any:
    """The module of StableHLO in the bytes of a file; HLO is converted.

    Raises:
        BadInput: they hold none.
    """
    refuse_neff(content, path)
    if not content.strip(b"\0 \t\r\n"):
        raise BadInput(f"{path} is empty: a module without a function main", fix=_EXPORT)
    kind, fix = "StableHLO", _EXPORT
    if kind_of_hlo(content):
        content, kind, fix = stablehlo_of_hlo(content, path), "HLO", HLO_FIX
    context, diagnostics = _context(), list[str]()

    def collect(diagnostic: Any) -> bool:
        diagnostics.append(str(diagnostic))
        return True

    # Without a handler MLIR prints its diagnostics, and the error does not have them.
    handler = context.attach_diagnostic_handler(collect)
    try:
        if _MAGIC in content:
            with context:
                module = dialect.deserialize_portable_artifact(context, bytecode_in(content))
        else:
            module = ir.Module.parse(content.decode(), context)
    except (ir.MLIRError, ValueError) as error:
        reason = "; ".join([*diagnostics[:1], " ".join(str(error).split("\n")[:2]).strip()])
        raise BadInput(f"{path} is no program of {kind}: {reason}", fix=fix) from error
    finally:
        handler.detach()
    if "main" not in mlir.functions(module.operation):
        raise BadInput(f"{path} holds a module without a function main", fix=fix)
    return module


def bytecode_in(content: bytes) -> bytes:
    """The bytecode in a file: all of it, or a vector of the flatbuffer that it is.

    Raises:
        ValueError: the vector is longer than the file.
    """
    start = content.index(_MAGIC)
    if start < _LENGTH:
        return content
    length = int.from_bytes(content[start - _LENGTH : start], "little")
    if start + length > len(content):
        raise ValueError(f"{len(content)} bytes of a file of at least {start + length}")
    return content[start : start + length]


def _context() -> Any:
    """A context with the dialects of JAX.

    Raises:
        BadInput: without JAX.
    """
    try:
        private = import_module("jax._src.interpreters.mlir")
    except ImportError as error:
        raise BadInput("a program of JAX needs JAX", fix="pip install jax") from error
    return private.make_ir_context()
