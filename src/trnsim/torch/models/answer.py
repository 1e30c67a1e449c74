"""What a model takes on a chip, in ten lines: time, bound, exchanges, memory.

The time is that of the graph's program, and of the exchanges, which do not overlap with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim import arch, compiler
from trnsim.compiler import Flags
from trnsim.device.device_core import DeviceCore, compiled_cores, device_core, device_text
from trnsim.lower import (
    Bound,
    Cost,
    Exchange,
    MemoryPlan,
    bound,
    memory_plan,
    without_exchanges,
)
from trnsim.profile.units import bytes_text, count_text, percent_text, rate_text, time_text
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.config import read_config
from trnsim.torch.models.model_graph import ModelGraph, model_graph
from trnsim.torch.models.script import script_graph
from trnsim.torch.models.shape import ModelShape

ExchangeTime = Callable[[Exchange, str], tuple[float, float]]
"""The time of an exchange on a chip, and of its bytes over the links: a room above knows them."""

_LONGEST: Final = 3
_DECODERS: Final = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True)
class Answer:
    """A model's graph on one chip.

    Attributes:
        title: what it is of.
        target: the chip.
        made: the graph.
        kernels: the cost of each kernel of one rank.
        exchanges: what ranks exchange, and the time of each.
        least: the bound.
        plan: HBM over time.
        items: what a step makes, such as 8 tokens; ("", 0) if it is not said.
        cores: physical cores of a logical one, over which a rank's graph is split.
        said: what the cores do not share.
    """

    title: str
    target: str
    made: ModelGraph
    kernels: tuple[Cost, ...]
    exchanges: tuple[tuple[Exchange, float], ...]
    least: Bound
    plan: MemoryPlan
    items: tuple[str, int]
    cores: int = 1
    said: tuple[str, ...] = ()

    @property
    def time_s(self) -> float:
        """Kernels and exchanges one after another, after one launch."""
        launch_s = self.kernels[0].launch_s if self.kernels else 0.0
        return launch_s + self.kernels_s + sum(time_s for _, time_s in self.exchanges)

    @property
    def kernels_s(self) -> float:
        """Of the device."""
        return sum(kernel.device_time_s for kernel in self.kernels)

    def text(self) -> str:
        """Ten lines, and what two cores do not share."""
        lines = [
            f"{self.title} on {device_text(self.target, self.cores)}",
            f"  time       {time_text(self.time_s)}{self._rate()}",
            f"  bound      {self._bound()}",
            f"  products   {self._products()}",
            f"  kernels    {self._kernels()}",
            f"  longest    {self._longest()}",
            f"  exchanges  {self._exchanged()}",
            f"  memory     {self._memory()}",
            f"  weights    {self._weights()}",
            f"  missing    {self._missing()}",
        ]
        return "\n".join([*lines, *(f"  cores      {one}" for one in self.said)])

    def _rate(self) -> str:
        name, number = self.items
        return f", {rate_text(number / self.time_s, f' {name}/s')}" if number else ""

    def _bound(self) -> str:
        least = self.least
        side = {
            "products": f"{count_text(least.flop / 1e9)} GFLOP of products at the peak",
            "HBM": f"{bytes_text(least.hbm_bytes)} once over HBM",
            "links": "exchanged bytes over the links",
        }[least.binds]
        return f"{time_text(least.seconds)}: {side}; the time is {self._distance()} times that"

    def _distance(self) -> str:
        return f"{self.time_s / self.least.seconds:.1f}" if self.least.seconds else "many"

    def _products(self) -> str:
        share = self.least.flop / self.time_s / self._device.peak_flop_per_s
        has = "a core's" if self.cores == 1 else "both cores'"
        return f"{self.least.flop / 1e9:.3g} GFLOP, {percent_text(share)} of {has} bf16 peak"

    @property
    def _device(self) -> DeviceCore:
        return device_core(arch.target(self.target), self.cores)

    def _kernels(self) -> str:
        instructions = sum(kernel.instructions for kernel in self.kernels)
        return (
            f"{count_text(len(self.kernels))} of {count_text(len(self.made.operators))} operators, "
            f"{count_text(instructions)} instructions, {time_text(self.kernels_s)}"
        )

    def _longest(self) -> str:
        taken: defaultdict[str, float] = defaultdict(float)
        for kernel in self.kernels:
            taken[kernel.name] += kernel.device_time_s
        rows = sorted(taken.items(), key=lambda row: -row[1])[:_LONGEST]
        return "; ".join(f"{name} {time_text(time_s)}" for name, time_s in rows) or "nothing"

    def _exchanged(self) -> str:
        if not self.exchanges:
            return "none: one rank"
        number: Counter[str] = Counter()
        for exchange, _ in self.exchanges:
            number[exchange.kind.replace("_", "-")] += 1
        total_s = sum(time_s for _, time_s in self.exchanges)
        words = ", ".join(f"{count} {kind}" for kind, count in number.items())
        ranks = self.exchanges[0][0].ranks
        return f"{words} over {ranks} ranks, {time_text(total_s)} by the closed form of the ring"

    def _memory(self) -> str:
        has = bytes_text(self._device.hbm_bytes)
        kind = "NeuronCore" if self.cores == 1 else "logical NeuronCore"
        return f"{bytes_text(self.plan.peak_bytes)} at most, of {has} of a {kind}"

    def _weights(self) -> str:
        kept = [value for value in self.made.graph.inputs if value.number in self.made.weights]
        nbytes = sum(value.type.nbytes for value in kept)
        given = self.plan.input_bytes - nbytes
        return f"{bytes_text(nbytes)} of a rank, beside {bytes_text(max(given, 0))} of inputs"

    def _missing(self) -> str:
        missing = self.made.missing
        if not missing:
            return "nothing: every operator has a time"
        return f"{len(missing)} operators have no time, so the total is short: {'; '.join(missing)}"


def answer_config(
    path: Path,
    shape: ModelShape,
    target: str,
    exchange_s: ExchangeTime,
    dtype: str = "bfloat16",
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
) -> Answer:
    """What a model of transformers takes.

    Raises:
        BadInput: for what is no configuration, or a shape that it does not have.
        OutOfDeviceMemory: for a graph over the HBM of a NeuronCore.
    """
    config = read_config(path)
    made = model_graph(config, shape, dtype=dtype)
    title = f"{config.model_type} ({path.name}), {_words(shape)}"
    name = "tokens" if shape.phase != "encode" or hasattr(config, "vocab_size") else "images"
    number = shape.batch * (shape.tokens if name == "tokens" else 1)
    return _answer(title, made, target, exchange_s, (name, number), flags, lnc)


def answer_script(
    path: Path,
    target: str,
    exchange_s: ExchangeTime,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
) -> Answer:
    """What the model of a Python file takes on the arguments there."""
    return _answer(path.name, script_graph(path), target, exchange_s, ("", 0), flags, lnc)


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


def _answer(
    title: str,
    made: ModelGraph,
    target: str,
    exchange_s: ExchangeTime,
    items: tuple[str, int],
    flags: Flags,
    lnc: int | None,
) -> Answer:
    alone, exchanged = without_exchanges(made.graph)
    plan = memory_plan(alone, made.names)
    chip = arch.target(target)
    cores = compiled_cores(chip, flags, lnc)
    device = device_core(chip, cores)
    if plan.peak_bytes > device.hbm_bytes:
        raise OutOfDeviceMemory(
            f"{title} needs {bytes_text(plan.peak_bytes)} of HBM at its peak; a NeuronCore of "
            f"{target} has {bytes_text(device.hbm_bytes)}\n{plan.table()}",
            fix="split it over more ranks (--tp), or ask for a smaller batch or a shorter sequence",
            source=device.source,
        )
    times = [exchange_s(one, target) for one in exchanged]
    timed = tuple((one, time_s) for one, (time_s, _) in zip(exchanged, times, strict=True))
    links_s = sum(on_links for _, on_links in times)
    least = bound(made.graph, target, weights=made.weights, lnc=cores, links_s=links_s)
    program = compiler.compile(made.graph, target, lnc=cores, weights=made.weights)
    said = program.said if cores > 1 else ()
    return Answer(
        title, target, made, program.costs(), timed, least, plan, items, program.lnc, said
    )
