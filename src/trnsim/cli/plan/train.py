"""``trnsim plan train``: the best layout, a step's time by cause, a run's time and USD."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.cli.comparison import Comparison
from trnsim.cli.options import (
    MixedPrices,
    OwnPrices,
    PurchaseKind,
    catalogue_with,
    command,
    short_dtype,
)
from trnsim.cli.plan.shared import (
    Config,
    MeasuredFile,
    On,
    measured_table,
    price_remarks,
    purchased_platforms,
)
from trnsim.cli.plan.train_document import feasible_options, train_document
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import number, whole, wholes
from trnsim.cli.report_files import answering
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.jobs.start_files import KINDS, check_kind, start_file
from trnsim.place.machine import machine
from trnsim.system.train import run, trace
from trnsim.system.train.best import BUDGET, Effort
from trnsim.system.train.candidates import LayoutRequest
from trnsim.system.train.estimate import TrainingEstimate, compare_runs, estimate, layout_request
from trnsim.system.train.limits import RunLimits, runs_on_enough
from trnsim.system.train.optimizers import OPTIMIZERS
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read

_HOUR_S: Final = 3600.0
_FRONT_DOUBLINGS: Final = 3
"""How often the smallest number of instances is doubled for a single platform's Pareto front."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of ``trnsim plan train``."""

    config: Config
    on: On = None
    instances: Annotated[
        Any,  # None, or a tuple of whole numbers
        wholes(
            "Number of instances, or several to compare; default: the smallest that fits.",
            example="4,8",
        ),
    ] = None
    tokens: Annotated[
        float,
        number(
            "Tokens of the whole run.",
            unit="tokens",
            example="10B",
            default="1B",
            exclusive_minimum=0,
        ),
    ] = 1e9
    sequence: Annotated[
        int | None,
        whole(
            "Tokens of a sequence; default: 8192, the model's limit if less, 512 for T5.",
            unit="tokens",
            minimum=1,
        ),
    ] = None
    global_batch: Annotated[
        int | None,
        whole("Sequences of a step; default: about 4 million tokens.", unit="sequences", minimum=1),
    ] = None
    micro_batch: Annotated[
        int | None,
        whole(
            "Sequences that a data rank takes at once.", unit="sequences", example="2", minimum=1
        ),
    ] = None
    tp: Annotated[int | None, whole("Ranks over which each layer is split.", minimum=1)] = None
    pp: Annotated[int | None, whole("Pipeline stages.", minimum=1)] = None
    vp: Annotated[
        int | None, whole("Parts of a pipeline stage; above 1 they are interleaved.", minimum=1)
    ] = None
    dp: Annotated[int | None, whole("Data ranks.", minimum=1)] = None
    cp: Annotated[int | None, whole("Ranks that divide a sequence.", minimum=1)] = None
    ep: Annotated[int | None, whole("Data ranks that divide experts.", minimum=1)] = None
    zero: Annotated[int | None, whole("Stage of ZeRO, 0 to 3: what data ranks share.")] = None
    recompute: Annotated[
        str | None,
        typer.Option(
            help="What the backward pass computes again: none, selective or full.", metavar="KIND"
        ),
    ] = None
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sp/--no-sp", help="Whether tensor ranks divide tokens between products."),
    ] = None
    schedule: Annotated[
        str, typer.Option(help="Schedule of the pipeline: 1f1b, zb-h1 or zb-h2.", metavar="NAME")
    ] = "1f1b"
    dtype: Annotated[
        str, typer.Option(help="Type of matrix products: fp32, fp16, bf16 or fp8.", metavar="DTYPE")
    ] = "bf16"
    optimizer: Annotated[
        str,
        typer.Option(help=f"The optimizer: {enumerated(list(OPTIMIZERS), 'or')}.", metavar="NAME"),
    ] = "adamw"
    deadline_hours: Annotated[
        float | None,
        number(
            "Hours within which the run ends, by its P50: the cheapest is named, and without "
            "--instances their number is searched.",
            unit="hours",
            example="14d",
            exclusive_minimum=0,
        ),
    ] = None
    budget_usd: Annotated[
        float | None,
        number(
            "USD that the run may cost, by its P50; without a deadline the shortest is named.",
            unit="USD",
            example="100k",
            exclusive_minimum=0,
        ),
    ] = None
    deadline: Annotated[
        float | None,
        number(
            "Seconds after which a search times no further layout.",
            unit="s",
            example="5min",
            exclusive_minimum=0,
        ),
    ] = None
    budget: Annotated[
        int, whole("Layouts that a search times.", unit="layouts", example="100", minimum=1)
    ] = BUDGET
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A Ray cluster that does the search.")
    ] = ""
    chip_mtbf_hours: Annotated[
        float,
        number(
            "Hours between failures of one chip.",
            unit="hours",
            default="2112d",
            exclusive_minimum=0,
        ),
    ] = run.CHIP_MTBF_S / _HOUR_S
    checkpoint_s: Annotated[
        float,
        number(
            "Seconds for which a checkpoint stops training.",
            unit="s",
            example="2min",
            default="5s",
            minimum=0,
        ),
    ] = run.CHECKPOINT_S
    recovery_s: Annotated[
        float,
        number(
            "Seconds from a failure until training goes on.",
            unit="s",
            example="10min",
            default="5min",
            minimum=0,
        ),
    ] = run.RECOVERY_S
    spares: Annotated[
        int, whole("Instances that wait to replace others, and are paid for.", minimum=0)
    ] = 0
    measured: MeasuredFile = None
    price: PurchaseKind = "capacity_block"
    prices: OwnPrices = None
    mixed_prices: MixedPrices = False
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", help="Write the pipeline as a trace for Perfetto.", metavar="FILE"),
    ] = None
    emit: Annotated[
        str | None,
        typer.Option(
            help=f"Print a file that starts the run: {enumerated(KINDS, 'or')}.", metavar="KIND"
        ),
    ] = None

    @property
    def limits(self) -> RunLimits:
        """The deadline and the budget of the run."""
        hours = self.deadline_hours
        return RunLimits(None if hours is None else hours * _HOUR_S, self.budget_usd)

    def effort(self, platforms: int, tell: Callable[[str], None]) -> Effort:
        """The effort of a search; for a single platform, more instances are timed too."""
        doublings = _FRONT_DOUBLINGS if platforms == 1 else 0
        return Effort(
            self.budget, self.deadline, self.ray, processes=0, doublings=doublings, tell=tell
        )

    def request(self, model: Architecture, name: str, count: int | None) -> LayoutRequest:
        """The axes that options fix, on `count` instances; usual sequence and batch by default."""
        return layout_request(
            model,
            machine(name, 1 if count is None else count),
            global_batch=self.global_batch,
            sequence=self.sequence,
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
            dtype=short_dtype(self.dtype),
            schedule=self.schedule,
            optimizer=self.optimizer,
        )


@answering
@command(TrainOptions)
def train(options: TrainOptions) -> Document | None:
    """The best layout of ranks, the time of its step and where that goes, time and USD of a run.

    Axes that no option names are searched; chips without work are refused. Failures, checkpoints
    and stragglers lengthen the run, not the step.

    Example: trnsim plan train llama-3.1-8b --on trn2 --instances 4 --tokens 10B
    """
    with progress() as tell:
        catalogue = catalogue_with(options.prices)
        if options.emit is not None:
            check_kind(options.emit)
        platforms = purchased_platforms(options.on, options.price, is_mixed=options.mixed_prices)
        if options.trace_file is not None:
            if len(platforms) * len(options.instances or [None]) > 1:
                raise BadInput(
                    "--trace has one pipeline",
                    fix="name one platform and one number: --on trn2 --instances 4",
                )
            files.check_writable(options.trace_file)
        model = read(options.config)
        table = measured_table(options.measured, [name for name, _ in platforms])
        effort = options.effort(len(platforms), tell)
        estimate_on = partial(estimate, model, effort=effort, measured=table, rows=catalogue)
        comparison = Comparison()
        runs = [
            training
            for name, purchase_kind in platforms
            for training in _platform_runs(
                options, model, name, purchase_kind, estimate_on, comparison
            )
        ]
        limits = options.limits
        comparison.check(runs, needs_all=options.emit is not None and not limits)
    if options.trace_file is not None:
        (training,) = runs
        content = trace.perfetto(training.model, training.machine, training.step.layout, table)
        files.write(options.trace_file, content)
    if options.emit is not None:
        start_texts = [
            start_file(options.emit, training.machine, training.step.layout, model=model.name)
            for training in _runs_to_start(runs, limits)
        ]
        echo("\n".join(start_texts))
        return None
    remarks = price_remarks([training.quote for training in runs], catalogue)
    return train_document(model, runs, remarks, limits, comparison.refusals)


def _runs_to_start(
    runs: Sequence[TrainingEstimate], limits: RunLimits
) -> Sequence[TrainingEstimate]:
    """The runs that --emit starts: all, or with limits the best that keeps them.

    Raises:
        BadInput: none keeps them.
    """
    if not limits:
        return runs
    best = limits.best(runs)
    if best is None:
        raise BadInput(
            f"no run that was tried keeps {limits}",
            fix=" or ".join(feasible_options(limits, runs)) or "name instances with a price: --on",
        )
    return [runs[best]]


def _platform_runs(
    options: TrainOptions,
    model: Architecture,
    name: str,
    purchase_kind: str,
    estimate_on: Callable[..., TrainingEstimate],
    comparison: Comparison,
) -> list[TrainingEstimate]:
    """The runs of a platform: one for each number of instances that is not refused.

    With limits and without numbers of instances, it is the one that keeps them or is nearest.
    """

    def run_on(count: int | None) -> TrainingEstimate:
        return estimate_on(
            name,
            options.tokens,
            request=options.request(model, name, count),
            instances=count,
            reliability=run.Reliability(
                options.chip_mtbf_hours * _HOUR_S,
                options.checkpoint_s,
                options.recovery_s,
                options.spares,
            ),
            kind=purchase_kind,
        )

    limits = options.limits
    if limits and options.instances is None:
        answers = comparison.ask(name, partial(runs_on_enough, run_on, limits))
        platform_runs = compare_runs([training for trainings in answers for training in trainings])
        return [platform_runs[limits.nearest(platform_runs)]] if platform_runs else []
    return compare_runs(
        [
            training
            for count in options.instances or [None]
            for training in comparison.ask(
                name if count is None else f"{name} x {count:,}", partial(run_on, count)
            )
        ]
    )
