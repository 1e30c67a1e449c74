"""`--command analyze`: the operators of a program that AWS's compiler supports or refuses.

Source: aws-neuron-sdk archive/nxd-training/analyze_for_training.rst; pytorch-neuron-parallel-
compile.rst, Analyze operations support.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim import arch
from trnsim.compiler import Flags
from trnsim.compiler.compile_cache import CacheEntry
from trnsim.compiler.compile_cache.settings import compiler_version
from trnsim.compiler.ncc.call_checks import call_refusals
from trnsim.compiler.ncc.calls import CompileTarget, FrameworkCall
from trnsim.compiler.ncc.node_checks import node_refusals
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.graph import Graph, Node, Value
from trnsim.graph.types import TensorType
from trnsim.jax.programs import subject_of
from trnsim.version import VERSION

XLA, ATEN = 1, 2
"""Levels of --analyze-verbosity: XLA adds instructions, ATEN has operators of PyTorch alone."""
_NOT_LOWERED: Final = "NCC_EVRF001"
_COMPILER: Final = "neuronx-cc"
_LOWERING: Final = "Lowering to HLO"
_TARGET: Final = "--target="
_NAMES: Final = {
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"float8_{kind}": f"f8{kind}" for kind in ("e4m3", "e4m3fn", "e5m2")},
    **{f"int{bits}": f"s{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "bfloat16": "bf16",
    "bool": "pred",
}
"""HLO's names of element types."""


@dataclass
class Analysis:
    """Operators and instructions in the graphs of a program.

    Attributes:
        supported: number of calls of each supported operator of the framework.
        refused: rows of result.json for calls of refused operators, without repeats.
        instructions: texts of XLA's instructions that compile, without repeats.
        refused_instructions: rows of result.json for XLA's instructions that do not compile.
        unread: paths of graphs that cannot be read, each with the reason.
    """

    supported: Counter[str] = field(default_factory=Counter[str])
    refused: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    instructions: list[str] = field(default_factory=list[str])
    refused_instructions: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    unread: list[str] = field(default_factory=list[str])

    def add(self, subject: Subject, target: CompileTarget) -> None:
        """Add the operators of a graph."""
        model = subject.model_graph
        call_results = frozenset(model.origins) if model.calls else frozenset[int]()
        refused_numbers = {
            number: code for code, _, number in node_refusals(model.graph, target, call_results)
        }
        refused_by_node = {id(model.origins[n]) for n in refused_numbers if n in model.origins}
        calls = {id(call): call for call in (*model.calls, *model.origins.values())}
        for key, call in calls.items():
            self._add_call(call, target, is_refused=key in refused_by_node)
        if not calls:
            self.supported.update(_aten_name(operator) for operator in model.operators)
        self._add_instructions(model.graph, refused_numbers.keys(), model.origins)

    def _add_call(self, call: FrameworkCall, target: CompileTarget, *, is_refused: bool) -> None:
        kind = _aten_name(call.operator)
        codes = {code for code, _ in call_refusals(call, target)}
        if codes or call.reason or is_refused:
            stage = _LOWERING if call.reason and codes <= {_NOT_LOWERED} else _COMPILER
            row = {"kind": kind, "failureAt": stage, "call": _line_text(call.line)}
            if row not in self.refused:
                self.refused.append(row)
        else:
            self.supported[kind] += 1

    def _add_instructions(
        self, graph: Graph, refused: Iterable[int], origins: dict[int, FrameworkCall]
    ) -> None:
        numbers = set(refused)
        for node in graph.nodes:
            text, origin = instruction_text(node), origins.get(node.result.number)
            if node.result.number not in numbers:
                if text not in self.instructions:
                    self.instructions.append(text)
                continue
            operator = _aten_name(origin.operator) if origin else ""
            row = {"hlo_instruction": text, "aten_op": operator}
            if row not in self.refused_instructions:
                self.refused_instructions.append(row)

    def as_dict(self, verbosity: int) -> dict[str, Any]:
        """The content of result.json."""
        compiled_count, refused_count = len(self.instructions), len(self.refused_instructions)
        if not refused_count:  # an operator that is refused before it is lowered has no instruction
            refused_count = len(self.refused)
        share = (
            100.0 * compiled_count / (compiled_count + refused_count)
            if compiled_count + refused_count
            else 0.0
        )
        supported: dict[str, Any] = {"aten": dict(self.supported)}
        refused: dict[str, Any] = {"aten": self.refused}
        if verbosity == XLA:
            supported["xla"] = self.instructions
            refused["xla"] = self.refused_instructions
        return {
            "torch_neuronx_version": f"trnsim {VERSION}",
            "neuronx_cc_version": compiler_version(),
            "support_percentage": f"{share:.2f}%",
            "supported_operators": supported,
            "unsupported_operators": refused,
            **({"unread_graphs": self.unread} if self.unread else {}),
        }


def analysis_of(entries: Sequence[CacheEntry]) -> Analysis:
    """The analysis of graphs in a cache."""
    analysis = Analysis()
    for entry in entries:
        try:
            flags = entry.flags()
            targets = [flag.removeprefix(_TARGET) for flag in flags if flag.startswith(_TARGET)]
            if not targets:
                raise BadInput("its flags name no --target")
            stage_flags = [flag for flag in flags if not flag.startswith(_TARGET)]
            target = CompileTarget(arch.target(targets[0]), Flags.parse(stage_flags))
            subject = subject_of(entry.graph(), str(entry.graph_file), entry.folder.name)
        except EmulatorError as error:
            analysis.unread.append(f"{entry.graph_file}: {error.reason}")
            continue
        analysis.add(subject, target)
    return analysis


def instruction_text(node: Node) -> str:
    """A node as HLO writes it: ``f32[4]{0} add(f32[4]{0}, f32[4]{0})``."""
    operands = ", ".join(
        _type_text(operand.type) if isinstance(operand, Value) else f"{operand:g}"
        for operand in node.operands
    )
    return f"{_type_text(node.result.type)} {node.name.replace('_', '-')}({operands})"


def _type_text(type_: TensorType) -> str:
    lengths = ",".join(map(str, type_.shape))
    layout = ",".join(str(dim) for dim in reversed(range(len(type_.shape))))
    return f"{_NAMES.get(type_.dtype, type_.dtype)}[{lengths}]" + (
        f"{{{layout}}}" if layout else ""
    )


def _aten_name(operator: str) -> str:
    """An operator without its overload: aten.add.Tensor and aten::add.Tensor are aten::add."""
    namespace, colons, name = operator.partition("::")
    if not colons:
        namespace, dot, name = operator.partition(".")
        if not dot:
            return operator
    return f"{namespace}::{name.partition('.')[0]}"


def _line_text(line: SourceLine | None) -> str:
    """A line of the user's program as AWS's report has it, "train.py 24"; "" for none."""
    if line is None:
        return ""
    return f"{line.file.replace(chr(92), '/').rpartition('/')[2]} {line.line}"
