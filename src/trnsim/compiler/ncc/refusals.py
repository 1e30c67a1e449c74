"""Refusals of a graph by neuronx-cc, under its own codes, with the operator and the user's line.

`node_checks` checks the graph's nodes; `call_checks` checks the framework's calls that they came
from, because some operators that AWS refuses (a dilated pooling, a product of integers) are lowered
to other operations here. The front end decides whether a refusal is an error or a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trnsim import arch
from trnsim.compiler.flags import Flags
from trnsim.compiler.ncc.call_checks import call_refusals
from trnsim.compiler.ncc.calls import CompileTarget, FrameworkCall
from trnsim.compiler.ncc.errors import NCC_ERRORS, NccError
from trnsim.compiler.ncc.limits import instruction_refusals, memory_refusals
from trnsim.compiler.ncc.node_checks import node_refusals
from trnsim.errors import EmulatorError, IllegalInstruction, OutOfMemory, SourceLine
from trnsim.graph import Graph
from trnsim.lower import MemoryPlan


class CompilerRefusal(IllegalInstruction, RuntimeError):
    """neuronx-cc refuses the graph.

    Attributes:
        is_final: False if policies other than `chip` only warn of it.
    """

    is_final: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A documented refusal of a graph.

    Attributes:
        code: its code, as neuronx-cc prints it ("NCC_EVRF013").
        line: the line of the user's program that called it; None if it is not known.
    """

    code: str
    subject: str
    line: SourceLine | None = None

    @property
    def ncc_error(self) -> NccError:
        """The documented error of the code."""
        return NCC_ERRORS[self.code]

    @property
    def reason(self) -> str:
        """The code, the operator with its operands, and the rule that they break."""
        return f"{self.code}: {self.subject}; {self.ncc_error.rule}"

    def error(self) -> EmulatorError:
        """The refusal as an error to raise."""
        kind = OutOfMemory if self.code in _MEMORY_CODES else CompilerRefusal
        ncc_error = self.ncc_error
        return kind(self.reason, fix=ncc_error.fix, source=ncc_error.source, line=self.line)

    def __str__(self) -> str:
        line_text = f" (at {self.line})" if self.line else ""
        return f"{self.reason}\n  fix: {self.ncc_error.fix}{line_text}"


_MEMORY_CODES = ("NCC_EOOM001", "NCC_EXSP001", "NCC_EVRF009")
"""Codes of programs that do not fit in memory."""


def refusals(
    graph: Graph,
    target: str = "trn2",
    flags: Flags = Flags(),  # noqa: B008  frozen
    *,
    calls: Sequence[FrameworkCall] = (),
    origins: Mapping[int, FrameworkCall] | None = None,
    plan: MemoryPlan | None = None,
    hbm_bytes: int = 0,
    instructions: int = 0,
) -> tuple[Refusal, ...]:
    """All documented refusals of a graph by neuronx-cc, in order, each once.

    Args:
        graph: the graph as it was imported, before casts.
        target: the chip.
        flags: AWS's flags.
        calls: the framework's calls in order, including those that have no lowering.
        origins: the call that a value came from, by the value's number.
        plan: addresses of the graph's tensors.
        hbm_bytes: HBM of the device; for `plan`.
        instructions: number of instructions of the program; 0 if it is not known.
    """
    target_chip = CompileTarget(arch.target(target), flags)
    calls_by_value = origins or {}
    results = [*_flag_refusals(target_chip)]
    for call in calls:
        results += [
            Refusal(code, subject, call.line) for code, subject in call_refusals(call, target_chip)
        ]
    # A program of JAX has no calls to check: its nodes' origins only name them.
    call_results = frozenset(calls_by_value) if calls else frozenset[int]()
    for code, node_text, number in node_refusals(graph, target_chip, call_results):
        origin = calls_by_value.get(number)
        description = f"{origin.operator}, {node_text}" if origin else node_text
        results.append(Refusal(code, description, origin.line if origin else None))
    if plan is not None:
        results += [Refusal(code, excess) for code, excess in memory_refusals(plan, hbm_bytes)]
    results += [Refusal(code, excess) for code, excess in instruction_refusals(instructions)]
    return tuple(dict.fromkeys(results))


def require_accepted(refused: Sequence[Refusal], *, is_strict: bool) -> None:
    """Raise the first refusal that is an error: any if `is_strict`, else one that is final.

    Raises:
        CompilerRefusal: for what neuronx-cc refuses.
        OutOfMemory: for a graph that does not fit in HBM.
    """
    for refusal in refused:
        if refusal.ncc_error.is_final or is_strict:
            error = refusal.error()
            if isinstance(error, CompilerRefusal):
                error.is_final = refusal.ncc_error.is_final
            raise error


def _flag_refusals(target: CompileTarget) -> list[Refusal]:
    """Refusals of flags that the chip does not support."""
    cores = target.flags.logical_nc_config
    if cores in (None, 1) or arch.makes_pairs(target.chip.core):
        return []
    return [Refusal("NCC_EARG001", f"--logical-nc-config={cores} on {target.chip.name}")]
