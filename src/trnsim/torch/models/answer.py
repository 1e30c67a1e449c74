"""What a model takes on a chip, in ten lines: time, bound, use, modules, exchanges, memory.

The time is that of the graph's program, and of the exchanges, which do not overlap with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any, Final

from trnsim import arch, compiler
from trnsim.compiler import CompiledProgram, Flags
from trnsim.compiler.casts import apply_casts
from trnsim.compiler.ncc.limits import instructions_refused, memory_refused
from trnsim.compiler.ncc.refusals import Refusal
from trnsim.compiler.shown import shown
from trnsim.device.device_core import DeviceCore, compiled_cores, device_core, device_text
from trnsim.formatting import text_table
from trnsim.lower import Exchange, MemoryPlan, memory_plan, without_exchanges
from trnsim.profile.analysis.whole import Whole
from trnsim.profile.units import bytes_text, count_text, percent_text, rate_text, time_text
from trnsim.runs import Run
from trnsim.torch.compile.refused import refused, require_accepted
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.config import read_config
from trnsim.torch.models.exported import exported_graph
from trnsim.torch.models.model_graph import ModelGraph, model_graph
from trnsim.torch.models.script import script_graph
from trnsim.torch.models.shape import ModelShape

ExchangeTime = Callable[[Exchange, str], tuple[float, float]]
"""The time of an exchange on a chip, and of its bytes over the links: a room above knows them."""

_LONGEST: Final = 3
_ROWS: Final = 16
_DECODERS: Final = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True)
class Subject:
    """What is asked about, whatever the chip.

    Attributes:
        title: what it is.
        made: its graph.
        items: what a step makes, such as 8 tokens; ("", 0) if it is not said.
    """

    title: str
    made: ModelGraph
    items: tuple[str, int] = ("", 0)


@dataclass(frozen=True)
class Answer:
    """A model's graph on one chip.

    Attributes:
        subject: the model.
        program: its program, for one rank.
        exchanges: what ranks exchange, and the time of each.
        links_s: what their bytes take over the links at least.
        plan: HBM over time.
        said: what AWS's compiler refuses of it, and flags that have no effect.
    """

    subject: Subject
    program: CompiledProgram
    exchanges: tuple[tuple[Exchange, float], ...]
    links_s: float
    plan: MemoryPlan
    said: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Of what, on which chip."""
        return f"{self.subject.title} on {device_text(self.program.target, self.program.lnc)}"

    @cached_property
    def whole(self) -> Whole:
        """The estimate, above its programs."""
        return self.program.whole(self.links_s, sum(time_s for _, time_s in self.exchanges))

    @property
    def time_s(self) -> float:
        """Programs and exchanges one after another, after one launch."""
        return self.whole.time_s

    def run(self) -> Run:
        """The program that a report shows.

        Raises:
            BadInput: there is none.
        """
        made = self.subject.made
        cores = f", LNC={self.program.lnc}" if self.program.lnc > 1 else ""
        return shown(made.graph, self.program, f"{self.subject.title}{cores}", made.weights)

    def text(self) -> str:
        """Ten lines, what is no one program, and what AWS's compiler would say."""
        lines = [
            self.title,
            f"  time        {time_text(self.time_s)}{self._rate()}",
            f"  bound       {self._bound()}",
            f"  use         {self._use()}",
            f"  program     {self._program()}",
            f"  modules     {self.whole.dearest(_LONGEST)}",
            f"  operations  {self._operations()}",
            f"  exchanges   {self._exchanged()}",
            f"  memory      {self._memory()}",
            f"  missing     {self._missing()}",
        ]
        lines += [f"  note        {one}" for one in self.program.said]
        if self.said:
            lines += ["neuronx-cc", *(indent(one, "  ") for one in self.said)]
        return "\n".join(lines)

    def long_text(self) -> str:
        """The same, and tables of time by operation and of HBM at its peak."""
        whole_s = self.program.device_time_s or 1.0
        rows = [
            [one.name, time_text(one.device_time_s), percent_text(one.device_time_s / whole_s)]
            for one in self.program.costs()[:_ROWS]
        ]
        parts = [
            self.text(),
            text_table(["operations", "time", "share"], rows),
            f"HBM at the peak\n{self.plan.table()}\narena  {self.plan.arena_text()}",
        ]
        return "\n\n".join(parts)

    def _rate(self) -> str:
        name, number = self.subject.items
        rate = " ".join(rate_text(number / self.time_s, f" {name}/s").split())
        return f", {rate}" if number else ""

    def _bound(self) -> str:
        whole = self.whole
        side = {
            "products": f"{count_text(whole.flop / 1e9)} GFLOP of products at the peak",
            "HBM": f"{bytes_text(whole.hbm_bytes)} once over HBM",
            "links": "exchanged bytes over the links",
        }[whole.binds]
        times = f"{whole.over_bound:.1f}" if whole.bound_s else "many"
        return f"{time_text(whole.bound_s)}: {side}; the time is {times} times that"

    @property
    def _whose(self) -> str:
        return "a core's" if self.program.lnc == 1 else "both cores'"

    def _use(self) -> str:
        whole = self.whole
        return (
            f"MFU {percent_text(whole.mfu)} of {self._whose} bf16 peak "
            f"({whole.flop / 1e9:.3g} GFLOP), "
            f"MBU {percent_text(whole.mbu)} of the HBM ({bytes_text(whole.hbm_bytes)})"
        )

    def _program(self) -> str:
        made = self.program
        words = (
            f"{count_text(made.instructions)} instructions for "
            f"{count_text(len(self.subject.made.operators))} operators, "
            f"{time_text(made.device_time_s)}"
        )
        several = f"; {made.programs} programs" if made.programs > 1 else ""
        few = f"; {made.compiled} of {made.layers} equal layers compiled" if made.layers else ""
        return words + several + few

    def _operations(self) -> str:
        rows = self.program.costs()[:_LONGEST]
        return "; ".join(f"{one.name} {time_text(one.device_time_s)}" for one in rows) or "nothing"

    def _exchanged(self) -> str:
        if not self.exchanges:
            return "none: one rank"
        number: Counter[str] = Counter()
        for exchange, _ in self.exchanges:
            number[exchange.kind.replace("_", "-")] += 1
        total_s = self.whole.exchanges_s
        words = ", ".join(f"{count} {kind}" for kind, count in number.items())
        ranks = self.exchanges[0][0].ranks
        return f"{words} over {ranks} ranks, {time_text(total_s)} by the closed form of the ring"

    def _memory(self) -> str:
        cores = self.program.lnc
        has = device_core(arch.target(self.program.target), cores).hbm_bytes
        kind = "NeuronCore" if cores == 1 else "logical NeuronCore"
        made = self.subject.made
        kept = [value for value in made.graph.inputs if value.number in made.weights]
        nbytes = sum(value.type.nbytes for value in kept)
        given = max(self.plan.input_bytes - nbytes, 0)
        return (
            f"{bytes_text(self.plan.peak_bytes)} at most, of {bytes_text(has)} of a {kind}; "
            f"{bytes_text(nbytes)} of weights, {bytes_text(given)} of inputs"
        )

    def _missing(self) -> str:
        missing = self.subject.made.missing
        if not missing:
            return "nothing: every operator has a time"
        return f"{len(missing)} operators have no time, so the total is short: {'; '.join(missing)}"


def of_config(path: Path, shape: ModelShape, dtype: str = "bfloat16") -> Subject:
    """A model of transformers, by its configuration.

    Raises:
        BadInput: for what is no configuration, or a shape that it does not have.
    """
    return of_model(read_config(path), path.name, shape, dtype)


def of_model(config: Any, name: str, shape: ModelShape, dtype: str = "bfloat16") -> Subject:
    """A model of a configuration of that name."""
    made = model_graph(config, shape, dtype=dtype)
    title = f"{config.model_type} ({name}), {_words(shape)}"
    what = "tokens" if shape.phase != "encode" or hasattr(config, "vocab_size") else "images"
    number = shape.batch * (shape.tokens if what == "tokens" else 1)
    return Subject(title, made, (what, number))


def of_script(path: Path) -> Subject:
    """The model of a Python file on the arguments there.

    Raises:
        BadInput: for a file without a model, or without arguments.
    """
    return Subject(path.name, script_graph(path))


def of_export(path: Path) -> Subject:
    """An exported program.

    Raises:
        BadInput: for a file that is not an exported program.
        CompilerRefusal: for a program with dimensions without a size.
    """
    return Subject(path.name, exported_graph(path))


def phase_of(path: Path, past: int) -> str:
    """The phase that is meant where none is said: decoders generate, others encode."""
    if past:
        return "decode"
    named = (getattr(read_config(path), "architectures", None) or [""])[0]
    return "prefill" if named.endswith(_DECODERS) else "encode"


def _words(shape: ModelShape) -> str:
    length = f"{shape.past:,} keys in the cache" if shape.past else f"{shape.sequence:,} tokens"
    ranks = f", one of {shape.ranks} ranks" if shape.ranks > 1 else ""
    return f"{shape.phase}, batch {shape.batch}, {length}{ranks}"


def answer(
    subject: Subject,
    target: str,
    exchange_s: ExchangeTime,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Answer:
    """What a model takes on a chip, with AWS's flags.

    A rank's graph is split over `lnc` physical cores; None: as the flags, the environment, or the
    chip say.

    Raises:
        BadInput: for cores that the chip has not, or that are named twice.
        CompilerRefusal: for what neuronx-cc refuses, under the policy `chip`.
        OutOfDeviceMemory: for a graph over the HBM of a NeuronCore.
    """
    made = subject.made
    found = refused(made, target, flags)
    require_accepted(found)
    alone, exchanged = without_exchanges(apply_casts(made.graph, flags))
    plan = memory_plan(alone, made.names)
    cores = compiled_cores(arch.target(target), flags, lnc)
    _require_room(subject.title, plan, device_core(arch.target(target), cores), target)
    times = [exchange_s(one, target) for one in exchanged]
    timed = tuple((one, time_s) for one, (time_s, _) in zip(exchanged, times, strict=True))
    program = compiler.compile(
        made.graph, target, lnc=cores, flags=flags, weights=made.weights, tell=tell
    )
    many = [Refusal(code, what) for code, what in instructions_refused(program.instructions)]
    require_accepted(many)
    said = (*flags.said, *map(str, (*found, *many)))
    return Answer(subject, program, timed, sum(on_links for _, on_links in times), plan, said)


def _require_room(title: str, plan: MemoryPlan, device: DeviceCore, target: str) -> None:
    for code, _ in memory_refused(plan, device.hbm_bytes):
        raise OutOfDeviceMemory(
            f"{code}: {title} needs {bytes_text(plan.peak_bytes)} of HBM at its peak; a "
            f"NeuronCore of {target} has {bytes_text(device.hbm_bytes)}\n{plan.table()}",
            fix="split it over more ranks (--tp), or ask for a smaller batch or a shorter sequence",
            source=device.source,
        )
