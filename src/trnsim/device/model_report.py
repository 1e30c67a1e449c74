"""A model on a chip in a dozen lines: time, bound, use, modules, exchanges, memory.

The time is that of plans for the same pass, where the model has a formula; the program's parts are
scaled to it. For any other graph it is the time of its program, in which exchanges between ranks
overlap with independent instructions; exchanges that are not in the program are added. The
framework of the graph makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import indent
from typing import Final, Protocol

from trnsim import arch, compiler
from trnsim.compiler import CompiledProgram, Flags
from trnsim.compiler.compilation import logical_core_size
from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.compiler.ncc.limits import instruction_refusals, memory_refusals
from trnsim.compiler.ncc.refusals import Refusal, refusals, require_accepted
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.compiler.reports.pattern_uses import PatternUse, pattern_uses
from trnsim.compiler.reports.reported_run import reported_run
from trnsim.device.collective_log import kind_of
from trnsim.device.device_core import DeviceCore, compiled_cores, device_core, device_text
from trnsim.device.fallback_policy import state
from trnsim.document.answer import Block, MonospaceLines, Note, Table, columns
from trnsim.document.text import WIDTH, section_text
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.estimate.estimate import EXCHANGES, QUANTILES, Estimate
from trnsim.estimate.program import estimate_program, raise_to_bound
from trnsim.estimate.question import Question
from trnsim.estimate.question import answer as ask
from trnsim.fabric.choice import KINDS
from trnsim.fabric.collective_time import CollectiveTime
from trnsim.fabric.floors import Floor
from trnsim.formatting import plural
from trnsim.graph import Graph
from trnsim.lower import GraphExchange, MemoryPlan, memory_plan, without_exchanges
from trnsim.place.links.program import program_time
from trnsim.place.machine import Machine, machine
from trnsim.profile.analysis.model_estimate import ModelEstimate
from trnsim.profile.units import bytes_text, count_text, percent_text, rate_text, time_text
from trnsim.runs import Run

_LISTED_PARTS: Final = 3
_OPERATION_ROWS: Final = 16


class ImportedGraph(Protocol):
    """A graph, imported from a framework's program."""

    @property
    def graph(self) -> Graph:
        """The graph."""
        ...

    @property
    def names(self) -> dict[int, str]:
        """The names of its inputs, by number."""
        ...

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the framework's program, in order."""
        ...

    @property
    def missing(self) -> tuple[str, ...]:
        """Operators without a lowering, each with the reason."""
        ...

    @property
    def calls(self) -> tuple[FrameworkCall, ...]:
        """The operators with their arguments."""
        ...

    @property
    def origins(self) -> dict[int, FrameworkCall]:
        """The call that a value came from, by the value's number."""
        ...


class FrameworkGraph(ImportedGraph, Protocol):
    """A model's graph, imported from a framework's program."""

    @property
    def weights(self) -> frozenset[int]:
        """The numbers of its inputs that are the same at every step."""
        ...


@dataclass(frozen=True)
class Subject:
    """A model to report on, independent of the chip.

    Attributes:
        items: name and number of the items of a step, such as 8 tokens; ("", 0) if unknown.
        ask: a function from a machine, and whether products are cast, to the question to plans on
            the same pass; None for a graph that plans do not cover.
        no_plan_reason: the reason why plans do not cover a model of a configuration, or "".
        graphs_on_more_ranks: a function from a factor by which memory is short, to larger numbers
            of ranks and the graph of each; None where the file has one graph.
        weights_note: what is to know about the type of its weights, or "".
    """

    title: str
    model_graph: FrameworkGraph
    items: tuple[str, int] = ("", 0)
    ask: Callable[[Machine, bool], Question] | None = None
    no_plan_reason: str = ""
    graphs_on_more_ranks: Callable[[float], Iterator[tuple[int, FrameworkGraph]]] | None = None
    weights_note: str = ""


@dataclass(frozen=True)
class ModelReport:
    """The report on a model's graph on a chip.

    Attributes:
        exchanges: exchanges between ranks, and the time of each.
        links_s: minimum time of their bytes over the links.
        plan: placement of tensors in HBM over time.
        compiler_notes: refusals of AWS's compiler, and flags that have no effect.
        planned: the estimate of plans; None where they do not cover the model.
        no_plan_reason: the reason why they do not, or "".
    """

    subject: Subject
    program: CompiledProgram
    exchanges: tuple[tuple[GraphExchange, float], ...]
    links_s: float
    plan: MemoryPlan
    compiler_notes: tuple[str, ...] = ()
    planned: Estimate | None = None
    no_plan_reason: str = ""

    @property
    def title(self) -> str:
        """The model and the chip."""
        return f"{self.subject.title} on {device_text(self.program.target, self.program.lnc)}"

    @cached_property
    def program_estimate(self) -> ModelEstimate:
        """The estimate of the compiled program alone, without plans."""
        return self.program.step_estimate(self.links_s, self.added_s)

    @cached_property
    def estimate(self) -> Estimate:
        """The estimated time, with P10 and P90."""
        program = self.program_estimate
        if self.planned is not None:
            return raise_to_bound(self.planned, program.bound_s)
        parts: dict[str, float] = {}
        for share in program.shares:
            for name, time_s in share.part.critical_s.items():
                parts[name] = parts.get(name, 0.0) + time_s
        parts |= {"launch": program.launch_s, EXCHANGES: program.exchanges_s}
        return estimate_program(arch.target(self.program.target), parts)

    @property
    def scale(self) -> float:
        """The ratio of the time to the time of the compiled program alone."""
        program_s = self.program_estimate.time_s
        return self.time_s / program_s if program_s else 1.0

    @cached_property
    def scaled_estimate(self) -> ModelEstimate:
        """The estimate of the program with its parts scaled to the time."""
        likely_s = self.estimate.quantile_s("p10"), self.estimate.quantile_s("p90")
        if self.planned is None:
            return replace(self.program_estimate, likely_s=likely_s)
        own_time = time_text(self.program_estimate.time_s)
        note = f"by itself {own_time}; its parts are scaled by {self.scale:.3g}"
        return replace(self.program_estimate.scaled(self.scale, note), likely_s=likely_s)

    @cached_property
    def added_s(self) -> float:
        """Time of the exchanges that are not in the program."""
        times_s, program = dict(self.exchanges), self.program
        return sum(
            times_s[exchange]
            if exchange in times_s
            else exchange_time(exchange, program.target, program.lnc).time_s
            for exchange in program.exchanges
        )

    @property
    def exposed_s(self) -> float:
        """The part of the time in which exchanges are on the critical path."""
        return self.added_s + self.program.exposed_s

    @property
    def time_s(self) -> float:
        """Median seconds."""
        return self.estimate.time_s

    def run(self) -> Run:
        """The run of the program, for a report.

        Raises:
            BadInput: the graph has no program.
        """
        model = self.subject.model_graph
        cores = f", LNC={self.program.lnc}" if self.program.lnc > 1 else ""
        return reported_run(
            model.graph, self.program, f"{self.subject.title}{cores}", model.weights
        )

    def blocks(self) -> list[Block]:
        """The report as a table of a dozen lines, with notes and refusals of AWS's compiler."""
        rows = [
            ("time", f"{self._time()}{self._rate()}"),
            ("parts", self._parts()),
            ("from", "; ".join(self._sources())),
            *([("limit", self.program.crowding)] if self.program.crowding else []),
            ("minimum", self._bound()),
            ("use", self._use()),
            ("program", self._program()),
            ("modules", self.scaled_estimate.longest_modules(_LISTED_PARTS)),
            ("operations", self._operations()),
            ("exchanges", self._exchange_text()),
            ("memory", self._memory()),
            ("missing", self._missing()),
            *(("note", note) for note in self.program.notes),
        ]
        table = Table(columns(" | ", numbers_from=2), rows, indent=2)
        blocks: list[Block] = [Note(self.title), table]
        if self.compiler_notes:
            notes = "\n".join(indent(note, "  ") for note in self.compiler_notes)
            blocks += [Note("neuronx-cc"), MonospaceLines(notes)]
        return blocks

    def text(self, width: int = WIDTH) -> str:
        """The report as lines of at most `width` columns."""
        return section_text("", self.blocks(), width)

    def explained(self, tell: Callable[[str], None] = lambda _: None) -> tuple[PatternUse, ...]:
        """The compiler's patterns that the graph has, and the program without each."""
        model = self.subject.model_graph
        return pattern_uses(model.graph, self.program, model.weights, tell)

    def as_dict(self) -> dict[str, object]:
        """The report as plain values, with SI units in the names."""
        whole = self.scaled_estimate
        return {
            "target": self.program.target,
            "lnc": self.program.lnc,
            "subject": self.subject.title,
            "estimate": self.estimate.as_dict(),
            "bound_s": whole.bound_s,
            "bound": whole.binds,
            "mfu": whole.mfu,
            "mbu": whole.mbu,
            "flop": whole.flop,
            "hbm_bytes": float(whole.hbm_bytes),
            "program_s": self.program_estimate.time_s,
            "scale": self.scale,
            "instructions": self.program.instructions,
            "exchanges": self._exchanges(),
            "memory_bytes": float(self.plan.peak_bytes),
            "missing": list(self.subject.model_graph.missing),
            "neuronx_cc": list(self.compiler_notes),
        }

    def _exchanges(self) -> list[dict[str, object]]:
        """Number, bytes and time of exchanges by kind and number of ranks."""
        sums: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for exchange, time_s in self.exchanges:
            sums.setdefault((exchange.kind, exchange.ranks), []).append((exchange.nbytes, time_s))
        return [
            {
                "name": f"{kind} over {ranks} ranks",
                "count": len(amounts),
                "bytes": sum(nbytes for nbytes, _ in amounts),
                "time_s": sum(time_s for _, time_s in amounts),
                "floor": Floor.PROGRAM.value,
            }
            for (kind, ranks), amounts in sums.items()
        ]

    def long_text(self) -> str:
        """The report with tables of time by operation and of HBM at its peak."""
        whole_s = self.program.device_time_s or 1.0
        rows = [
            (
                cost.name,
                time_text(self.scale * cost.device_time_s),
                percent_text(cost.device_time_s / whole_s),
            )
            for cost in self.program.costs()[:_OPERATION_ROWS]
        ]
        parts = [
            self.text(),
            section_text("", [Table(columns("operations | time | share"), rows)]),
            f"HBM at the peak\n{self.plan.table()}\narena  {self.plan.arena_text()}",
        ]
        return "\n\n".join(parts)

    def _time(self) -> str:
        low, middle, high = (time_text(self.estimate.quantile_s(name)) for name in QUANTILES)
        return f"{middle} ({low} to {high})"

    def _parts(self) -> str:
        parts = sorted(self.estimate.parts_s.items(), key=lambda part: -part[1])
        return ", ".join(f"{name} {time_text(time_s)}" for name, time_s in parts if time_s)

    def _sources(self) -> list[str]:
        estimate = self.estimate
        remarks = [f"extrapolated: {reason}" for reason in estimate.extrapolations]
        if self.no_plan_reason:
            remarks.append(f"plans cannot be asked: {self.no_plan_reason}")
        return [*dict.fromkeys(estimate.sources.values()), *remarks, *estimate.conditions]

    def _rate(self) -> str:
        name, number = self.subject.items
        rate = " ".join(rate_text(number / self.time_s, f" {name}/s").split())
        return f", {rate}" if number else ""

    def _bound(self) -> str:
        whole = self.scaled_estimate
        limit = {
            "products": f"{count_text(whole.flop / 1e9)} GFLOP of products at the peak",
            "HBM": f"{bytes_text(whole.hbm_bytes)} once over HBM",
            "links": "exchanged bytes over the links",
        }[whole.binds]
        times = f"{whole.bound_ratio:.1f}" if whole.bound_s else "many"
        return f"{time_text(whole.bound_s)}: {limit}; the time is {times} times that"

    def _use(self) -> str:
        whole = self.scaled_estimate
        core = "a core's" if self.program.lnc == 1 else "both cores'"
        return (
            f"MFU {percent_text(whole.mfu)} of {core} bf16 peak ({whole.flop / 1e9:.3g} GFLOP), "
            f"MBU {percent_text(whole.mbu)} of the HBM ({bytes_text(whole.hbm_bytes)})"
        )

    def _program(self) -> str:
        program, count = self.program, len(self.subject.model_graph.operators)
        words = (
            f"{count_text(program.instructions)} {plural(program.instructions, 'instruction')} for "
            f"{count_text(count)} {plural(count, 'operator')}, {time_text(program.device_time_s)}"
        )
        programs = f"; {program.programs} programs" if program.programs > 1 else ""
        layers = (
            f"; {program.compiled_layers} of {program.layers} equal layers compiled, which stand "
            "for all"
            if program.layers
            else ""
        )
        scale = ""
        if self.planned is not None:
            own_time = time_text(self.program_estimate.time_s)
            scale = (
                f"; with launch and exchanges {own_time} by itself; modules and operations are "
                f"scaled by {self.scale:.3g} to the time above"
            )
        return words + programs + layers + scale

    def _operations(self) -> str:
        rows = self.program.costs()[:_LISTED_PARTS]
        texts = (f"{cost.name} {time_text(self.scale * cost.device_time_s)}" for cost in rows)
        return "; ".join(texts) or "nothing"

    def _exchange_text(self) -> str:
        if not self.exchanges:
            return "none: one rank"
        counts = Counter(exchange.kind.replace("_", "-") for exchange, _ in self.exchanges)
        inside_s = self.added_s + self.program.exchanged_s
        total_s = inside_s if self.planned is None else self.planned.parts_s.get(EXCHANGES, 0.0)
        words = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        ranks = self.exchanges[0][0].ranks
        exposed = time_text(total_s * self.exposed_s / inside_s if inside_s else 0.0)
        hidden = f", {exposed} of it exposed" if self.program.exchanged_s else ""
        return f"{words} over {ranks} ranks {Floor.PROGRAM.value}, {time_text(total_s)}{hidden}"

    def _memory(self) -> str:
        cores = self.program.lnc
        hbm_bytes = device_core(arch.target(self.program.target), cores).hbm_bytes
        kind = "NeuronCore" if cores == 1 else "logical NeuronCore"
        model = self.subject.model_graph
        weights = [value for value in model.graph.inputs if value.number in model.weights]
        nbytes = sum(value.type.nbytes for value in weights)
        input_bytes = max(self.plan.input_bytes - nbytes, 0)
        return (
            f"{bytes_text(self.plan.peak_bytes)} at most, of {bytes_text(hbm_bytes)} of a {kind}; "
            f"{bytes_text(nbytes)} of weights, {bytes_text(input_bytes)} of inputs"
        )

    def _missing(self) -> str:
        missing = self.subject.model_graph.missing
        if not missing:
            return "nothing: every operator has a time"
        have = plural(len(missing), "operator has", "operators have")
        return f"{len(missing)} {have} no time, so the total is short: {'; '.join(missing)}"


def report_model(
    subject: Subject,
    target: str,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ModelReport:
    """The report on a model on a chip, with AWS's flags.

    A rank's graph is split over `lnc` physical cores; None: those of the flags, the environment, or
    the chip. Under the policy `chip` a refusal of neuronx-cc is an error.

    Raises:
        BadInput: for cores that the chip does not have, or numbers of cores that contradict.
        CompilerRefusal: for a graph that neuronx-cc refuses, under the policy `chip`.
        OutOfMemory: for a graph over the HBM of a NeuronCore.
    """
    model = subject.model_graph
    is_strict = state.policy == "chip"
    model_refusals = refusals(model.graph, target, flags, calls=model.calls, origins=model.origins)
    require_accepted(model_refusals, is_strict=is_strict)
    graph, exchanges = without_exchanges(apply_casts(model.graph, flags))
    plan = memory_plan(graph, model.names)
    cores = logical_core_size(compiled_cores(arch.target(target), flags, lnc), Flags(), target)
    _require_room(subject, plan, device_core(arch.target(target), cores), (target, flags))
    times = [exchange_time(exchange, target, cores) for exchange in exchanges]
    timed_exchanges = tuple(
        (exchange, time.time_s) for exchange, time in zip(exchanges, times, strict=True)
    )
    program = compiler.compile(
        model.graph, target, lnc=cores, flags=flags, weights=model.weights, tell=tell
    )
    size_refusals = [Refusal(code, n) for code, n in instruction_refusals(program.instructions)]
    require_accepted(size_refusals, is_strict=is_strict)
    notes = (*flags.notes, *map(str, (*model_refusals, *size_refusals)))
    plan_estimate, no_plan_reason = _plan_estimate(subject, target, cores, flags)
    least_s = sum(time.least_s for time in times)
    return ModelReport(
        subject, program, timed_exchanges, least_s, plan, notes, plan_estimate, no_plan_reason
    )


def _plan_estimate(
    subject: Subject, target: str, cores: int, flags: Flags
) -> tuple[Estimate | None, str]:
    """The estimate of plans for the same pass, and the reason why there is none, or ""."""
    if subject.ask is None:
        return None, subject.no_plan_reason
    on_machine = machine(target, lnc=cores)
    try:
        question = subject.ask(on_machine, flags.auto_cast != "none")
        estimate = ask(question)
    except (BadInput, NotModelled) as error:
        return None, error.reason.splitlines()[0]
    if question.split.ranks == 1:
        return estimate, ""
    return replace(estimate, conditions=(f"ranks are those of {on_machine.instance.name}",)), ""


def exchange_time(exchange: GraphExchange, target: str, lnc: int) -> CollectiveTime:
    """The time of an exchange of a graph between ranks of `lnc` cores, and its lower bound.

    Raises:
        NotModelled: for an exchange without a known algorithm.
    """
    kind = kind_of(exchange.kind)
    if kind is None:
        raise NotModelled(
            f"{exchange.kind} has no time; {', '.join(KINDS)} have one",
            fix="take it out of the graph",
        )
    return program_time(kind, exchange.nbytes, exchange.groups, target, lnc)


def _require_room(
    subject: Subject, plan: MemoryPlan, device: DeviceCore, compiled_for: tuple[str, Flags]
) -> None:
    target, flags = compiled_for
    kind = "NeuronCore" if device.physical_cores == 1 else "logical NeuronCore"
    for code, _ in memory_refusals(plan, device.hbm_bytes):
        raise OutOfMemory(
            f"{code}: {subject.title} needs {bytes_text(plan.peak_bytes)} of HBM at its peak; a "
            f"{kind} of {target} has {bytes_text(device.hbm_bytes)}\n{plan.table()}",
            fix=f"{_fitting_ranks(subject, plan, device, flags)}{subject.weights_note}",
            source=device.source,
        )


def _fitting_ranks(subject: Subject, plan: MemoryPlan, device: DeviceCore, flags: Flags) -> str:
    """The fewest ranks whose share of the model fits, in words."""
    other_fixes = "ask for a smaller batch or a shorter sequence"
    if subject.graphs_on_more_ranks is None:
        return f"split it over more ranks (--tp), or {other_fixes}"
    for ranks, larger_split in subject.graphs_on_more_ranks(plan.peak_bytes / device.hbm_bytes):
        graph, _ = without_exchanges(apply_casts(larger_split.graph, flags))
        smaller_plan = memory_plan(graph, larger_split.names)
        if not list(memory_refusals(smaller_plan, device.hbm_bytes)):
            rank_bytes = bytes_text(smaller_plan.peak_bytes)
            return f"--tp {ranks}, of which a rank needs {rank_bytes}, or {other_fixes}"
    return f"{other_fixes}: no --tp that divides its heads makes it fit"
