"""``trnsim plan train``: the best layout, its step and where that goes, time and USD of a run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim import files
from trnsim.cli.options import OwnPrices, as_number, command, own_rows
from trnsim.cli.plan.shared import (
    AsJson,
    Config,
    Kind,
    MeasuredFile,
    MixedPrices,
    On,
    beside,
    by_phase,
    measured_table,
    number,
    purchased,
    size_of,
    whole,
)
from trnsim.cli.progress import progress
from trnsim.cli.terminal import echo
from trnsim.errors import BadInput
from trnsim.formatting import (
    amount,
    amounts,
    durations,
    parse_wholes,
    text_table,
)
from trnsim.place.machine import machine
from trnsim.system.train import launch, run, trace
from trnsim.system.train.best import BUDGET, Effort
from trnsim.system.train.candidates import Asked
from trnsim.system.train.estimate import (
    Size,
    TrainingEstimate,
    estimate,
    together,
    usual,
    usual_batch,
)
from trnsim.workload.config import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.cli.plan.shared import Beside
    from trnsim.estimate.measured import Measured
    from trnsim.facts import Interval
    from trnsim.system.train.step import Step
    from trnsim.workload.architecture import Architecture

_HOUR_S: Final = 3600.0
_DOUBLINGS: Final = 3
"""Of the smallest number of instances, for the front of one platform."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says."""

    config: Config
    on: On = None
    instances: Annotated[
        Any,  # None, or a tuple of whole numbers
        typer.Option(
            parser=as_number(parse_wholes),
            help="How many, or several numbers to compare; the smallest that fits unless told.",
            metavar="NUMBER,...",
        ),
    ] = None
    tokens: Annotated[float, number("Tokens of the whole run.", "--tokens")] = 1e9
    sequence: Annotated[
        int | None, whole("Tokens of a text; 8192, or what the model knows.", "--sequence")
    ] = None
    global_batch: Annotated[
        int | None, whole("Sequences per step; about 4 million tokens.", "--global-batch")
    ] = None
    micro_batch: Annotated[
        int | None, whole("Sequences that a data rank takes at once.", "--micro-batch")
    ] = None
    tp: Annotated[int | None, whole("Tensor ranks.", "--tp")] = None
    pp: Annotated[int | None, whole("Pipeline stages.", "--pp")] = None
    vp: Annotated[int | None, whole("Parts of a stage; interleaved above 1.", "--vp")] = None
    dp: Annotated[int | None, whole("Data ranks.", "--dp")] = None
    cp: Annotated[int | None, whole("Ranks that share a sequence.", "--cp")] = None
    ep: Annotated[int | None, whole("Data ranks that share experts.", "--ep")] = None
    zero: Annotated[
        int | None, whole("What data ranks share: 0 to 3, as ZeRO counts.", "--zero")
    ] = None
    recompute: Annotated[
        str | None, typer.Option(help="What backward computes again: none, selective or full.")
    ] = None
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sp/--no-sp", help="Whether tensor ranks share tokens between products."),
    ] = None
    schedule: Annotated[str, typer.Option(help="Of the pipeline: 1f1b, zb-h1 or zb-h2.")] = "1f1b"
    dtype: Annotated[str, typer.Option(help="Of products: fp32, fp16, bf16 or fp8.")] = "bf16"
    optimizer: Annotated[str, typer.Option(help="adamw, adamw-bf16, lamb, ...")] = "adamw"
    deadline: Annotated[
        float | None, number("Seconds after which a search times no more.", "--deadline")
    ] = None
    budget: Annotated[int, whole("Layouts that a search times.", "--budget")] = BUDGET
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A Ray cluster that does the search.")
    ] = ""
    chip_mtbf_hours: Annotated[
        float, number("Hours between failures of one chip.", "--chip-mtbf-hours")
    ] = run.CHIP_MTBF_S / _HOUR_S
    checkpoint_s: Annotated[
        float, number("Seconds for which a checkpoint stops training.", "--checkpoint-s")
    ] = run.CHECKPOINT_S
    recovery_s: Annotated[
        float, number("Seconds from a failure until training goes on.", "--recovery-s")
    ] = run.RECOVERY_S
    spares: Annotated[int, whole("Instances that wait to replace others.", "--spares")] = 0
    measured: MeasuredFile = None
    price: Kind = "capacity_block"
    prices: OwnPrices = None
    mixed_prices: MixedPrices = False
    trace_file: Annotated[
        Path | None, typer.Option("--trace", help="Write the pipeline as a Perfetto trace.")
    ] = None
    emit: Annotated[
        str | None, typer.Option(help="Print a file that starts it: torchrun, sbatch or k8s.")
    ] = None
    as_json: AsJson = False

    def effort(self, platforms: int, tell: Callable[[str], None]) -> Effort:
        """Of a search; one platform's smallest number of instances has its doublings beside it."""
        more = _DOUBLINGS if platforms == 1 else 0
        return Effort(self.budget, self.deadline, self.ray, processes=0, doublings=more, tell=tell)

    def asked(self, model: Architecture, name: str, count: int | None) -> Asked:
        """What a search takes as given, with the usual sequence and batch where none is."""
        where = machine(name, 1 if count is None else count)
        usually = usual(model, where, self.sequence)
        sequence = usually.sequence if self.sequence is None else self.sequence
        batch = self.global_batch
        if batch is None:
            at_once = max((self.dp or 1) * (self.micro_batch or 1), 1)
            batch = -(-usual_batch(where, max(sequence, 1)) // at_once) * at_once
        return Asked(
            batch,
            sequence,
            tensor=self.tp,
            pipeline=self.pp,
            virtual=self.vp,
            data=self.dp,
            context=self.cp,
            expert=self.ep,
            zero=self.zero,
            recompute=self.recompute,
            is_sequence=self.sequence_parallel,
            micro_batch=self.micro_batch,
            dtype=self.dtype,
            schedule=self.schedule,
            optimizer=self.optimizer,
        )

    def check(self) -> None:
        """Refuse a search that times nothing, and a file that nothing writes.

        Raises:
            BadInput: the budget or the deadline is not positive; no such file.
        """
        if self.budget < 1:
            fix = "for example --budget 48"
            raise BadInput(f"--budget {self.budget}; legal: from 1 on", fix=fix)
        if self.deadline is not None and not self.deadline > 0:
            raise BadInput(f"--deadline {self.deadline}; legal: a positive number of seconds")
        if self.emit is not None:
            launch.check(self.emit)


@command(Options)
def train(given: Options) -> None:
    """The best layout of ranks, the time of its step and where that goes, time and USD of a run.

    Axes that no option names are searched; chips without work are refused. Failures, checkpoints
    and stragglers lengthen the run, not the step.

    Example: trnsim plan train examples/llama-3.1-8b.json --on trn2 --instances 4 --tokens 1e9
    """
    model = read(given.config)
    rows = own_rows(given.prices)
    given.check()
    kinds = purchased(given.on, given.price, is_mixed=given.mixed_prices)
    table = measured_table(given.measured, [name for name, _ in kinds])
    with progress() as tell:
        effort = given.effort(len(kinds), tell)
        known = partial(estimate, model, effort=effort, measured=table, rows=rows)
        found = [one for on in kinds for one in _sizes(given, model, *on, known)]
    _written(found, given.trace_file, table)
    if given.emit is not None:
        echo("\n".join(launch.text(given.emit, e.machine, e.step.layout) for e in found))
        return
    said = beside([one.quote for one in found], rows)
    echo(_json(found, said) if given.as_json else _text(model, found, said))


def _sizes(
    given: Options,
    model: Architecture,
    name: str,
    kind: str,
    estimated: Callable[..., TrainingEstimate],
) -> list[TrainingEstimate]:
    """A platform with each number of instances."""
    return together(
        [
            estimated(
                name,
                given.tokens,
                asked=given.asked(model, name, count),
                instances=count,
                reliability=run.Reliability(
                    given.chip_mtbf_hours * _HOUR_S,
                    given.checkpoint_s,
                    given.recovery_s,
                    given.spares,
                ),
                kind=kind,
            )
            for count in given.instances or [None]
        ]
    )


def _written(
    found: Sequence[TrainingEstimate], trace_file: Path | None, table: Measured | None
) -> None:
    """Write the trace of one platform's pipeline.

    Raises:
        BadInput: there are several platforms.
    """
    if trace_file is None:
        return
    if len(found) > 1:
        raise BadInput(
            "--trace has one pipeline",
            fix="name one platform and one number: --on trn2 --instances 4",
        )
    one = found[0]
    made = trace.perfetto(one.model, one.machine, one.step.layout, table)
    files.write(trace_file, made)


def _text(model: Architecture, found: Sequence[TrainingEstimate], said: Beside) -> str:
    tables = [_runs(found, said.mark), _layouts(found), _where(found)]
    ends = [*_fronts(found, said.mark), _basis(found), *said.lines]
    title = (
        f"{model.name}: {size_of(model)}; "
        f"{amount(found[0].tokens)} tokens in sequences of {found[0].step.layout.sequence}"
    )
    return "\n".join([title, "", *(f"{one}\n" for one in tables), *ends])


def _labels(found: Sequence[TrainingEstimate]) -> list[str]:
    """The platform of each run, with its instances where there are several of one platform."""
    names = [e.platform for e in found]
    is_one = len(set(names)) == len(names)
    return names if is_one else [f"{e.platform} x {e.machine.count:,}" for e in found]


def _runs(found: Sequence[TrainingEstimate], mark: str) -> str:
    header = ("platform", "instances", "chips", "time P50 (P10 to P90)", "chip-hours")
    rows = [
        (
            label,
            f"{e.machine.count} x {e.machine.instance.name}",
            str(e.machine.chips),
            durations(e.time_s) if e.goodput.is_ending else "never finishes",
            amount(e.time_s.p50 * e.machine.chips / _HOUR_S) if e.goodput.is_ending else "-",
            amounts(e.usd),
            str(e.quote) + mark,
        )
        for label, e in zip(_labels(found), found, strict=True)
    ]
    return text_table((*header, "USD P50 (P10 to P90)", "price"), rows)


def _layouts(found: Sequence[TrainingEstimate]) -> str:
    header = ("platform", "step P50 (P10 to P90)", "sequences", "sequences/s", "tokens/s/chip")
    rows = [
        (
            label,
            durations(e.step.step_s),
            str(e.step.layout.global_batch),
            amounts(e.step.sequences_per_s),
            amount(e.step.tokens_per_s_per_chip.p50),
            f"{e.step.mfu:.1%}",
            f"{max(one.total for one in e.step.memory) / 2**30:.1f} GiB",
            f"{e.goodput.goodput:.1%}",
            str(e.step.layout),
        )
        for label, e in zip(_labels(found), found, strict=True)
    ]
    return text_table((*header, "MFU", "memory", "goodput", "layout"), rows)


def _where(found: Sequence[TrainingEstimate]) -> str:
    """The parts of each step in per cent; exchanges of data ranks that computing hides beside."""
    names = list(found[0].step.parts_s)
    rows = [
        (
            label,
            *(f"{e.step.parts_s[name] / e.step.step_s.p50:.1%}" for name in names),
            f"{e.step.data_hidden_s / e.step.step_s.p50:.1%}",
        )
        for label, e in zip(_labels(found), found, strict=True)
    ]
    return text_table(("share of the step", *names, "data, hidden"), rows)


def _fronts(found: Sequence[TrainingEstimate], mark: str) -> list[str]:
    """What is better in time, in USD or in chips than all else that was looked at."""
    lines = []
    shown: set[str] = set()
    for label, e in zip(_labels(found), found, strict=True):
        points = e.front if e.platform not in shown else ()
        shown.add(e.platform)
        if len(points) > 1:
            lines.append(f"{e.platform}: no other is as fast, as cheap and as small:")
            lines += [
                f"  {one.machine.count} instances, {one.machine.chips} chips: "
                f"{durations(one.time_s)}, {amounts(one.usd)} USD{mark}; {one.step.layout}"
                for one in points
            ]
        lines += [f"{label}: note: {_note(e)}"] if _note(e) else []
        lines.append(
            f"{label}: {e.best.looked_at:,} layouts, {e.best.fitting:,} with room, "
            f"{e.best.timed} timed"
        )
    return lines


def _note(e: TrainingEstimate) -> str:
    """What takes most of the run's time, and that fewer instances do as well, where they do."""
    return "; ".join(one for one in (e.goodput.why, _fewer(e)) if one)


def _fewer(e: TrainingEstimate) -> str:
    fewer = e.smaller
    if fewer is None:
        return ""
    count = fewer.machine.count
    both = f"{durations(e.time_s)} against {durations(fewer.time_s)}"
    least = f"more than {count:,} do not pay ({fewer.step.layout})"
    return f"{e.machine.count:,} instances are not faster than {count:,}: {both}; {least}"


def _basis(found: Sequence[TrainingEstimate]) -> str:
    """The basis of each estimate, then the assumptions, each once."""
    lines = [""]
    seen: dict[str, list[str]] = {}
    for label, e in zip(_labels(found), found, strict=True):
        state = "validated" if e.basis.validated else "unvalidated"
        lines.append(f"{label}: {state}; {e.basis}; {'; '.join(by_phase(e.step.estimate.sources))}")
        lines += [f"  extrapolated: {one}" for one in e.step.estimate.extrapolations]
        for name in e.assumed:
            seen.setdefault(name, []).append(label)
    lines.append("assumed:")
    lines += [f"  {name} [{', '.join(platforms)}]" for name, platforms in seen.items()]
    return "\n".join(lines)


def _json(found: Sequence[TrainingEstimate], said: Beside) -> str:
    plain = [_plain(e) | said.plain for e in found]
    return json.dumps(plain[0] if len(plain) == 1 else plain, indent=1)


def _plain(e: TrainingEstimate) -> dict[str, Any]:
    """An estimate as JSON: figures as P10, P50 and P90 in SI units."""
    return {
        "platform": e.platform,
        "instance": e.machine.instance.name,
        "instances": e.machine.count,
        "chips": e.machine.chips,
        "layout": asdict(e.step.layout),
        **_step(e.step),
        "time_s": asdict(e.time_s) if e.goodput.is_ending else None,
        "usd": _interval(e.usd),
        "goodput": e.goodput.goodput,
        "checkpoint_interval_s": e.goodput.interval_s,
        "price": str(e.quote),
        "pareto": [_size(one) for one in e.front],
        "not_faster_than": None if e.smaller is None else _size(e.smaller),
        "searched": {
            "layouts": e.best.looked_at,
            "with_room": e.best.fitting,
            "timed": e.best.timed,
        },
        "validated": e.basis.validated,
        "inputs": {kind.value: count for kind, count in e.basis.counts.items()},
        "assumed": list(e.assumed),
        "estimate": e.step.estimate.as_dict(),
        "note": _note(e),
    }


def _size(one: Size) -> dict[str, Any]:
    return {
        "instances": one.machine.count,
        "chips": one.machine.chips,
        "layout": asdict(one.step.layout),
        "time_s": one.time_s.p50,
        "usd": None if one.usd is None else one.usd.p50,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "step_s": asdict(step.step_s),
        "sequences_per_s": asdict(step.sequences_per_s),
        "tokens_per_s_per_chip": asdict(step.tokens_per_s_per_chip),
        "memory_bytes": [one.total for one in step.memory],
        "memory_parts_bytes": [asdict(one) for one in step.memory],
        "parts_s": step.parts_s,
        "data_hidden_s": step.data_hidden_s,
        "mfu": step.mfu,
        "flop": step.flop,
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)
