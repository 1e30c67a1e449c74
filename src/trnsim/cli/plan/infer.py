"""``trnsim plan infer``: latency, items per second and USD of models that make no tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim.arch.catalogue import Catalogue
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
    MeasuredFile,
    On,
    answer_pointer,
    bound_note,
    compared_document,
    floor_notes,
    measured_table,
    price_remarks,
    purchased_platforms,
    sources_by_phase,
)
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Block, Document, Drawing, Items, Note, Section, Table, columns
from trnsim.document.drawing import Parts, parts_chart
from trnsim.document.values import picked
from trnsim.formatting import amounts, durations, seconds
from trnsim.system.infer.estimate import InferenceEstimate, estimate
from trnsim.system.infer.parts import InputSizes
from trnsim.workload.model_names import config_file, model_name

_FOLDER_FILES: Final = ("config.json", "model_index.json")
_COLUMNS: Final = columns(
    "platform | instance | copies | latency P50 (P10 to P90) | items/s | USD per 1M items",
    numbers_from=2,
)


@dataclass(frozen=True, kw_only=True)
class InferOptions:
    """Options of ``trnsim plan infer``."""

    config: Annotated[
        Path,
        typer.Argument(
            parser=config_file,
            help="A model's name (trnsim models) or id on Hugging Face, a config.json, or a "
            "model_index.json of diffusers or its folder.",
            metavar="MODEL",
        ),
    ]
    batch: Annotated[
        int, whole("Items that go through a copy at once.", unit="items", example="8")
    ] = 1
    sequence: Annotated[
        int | None,
        whole("Tokens of a text; default: 128, or the model's limit if less.", unit="tokens"),
    ] = None
    image: Annotated[
        int | None,
        whole("Pixels of an image along a side; default: the model's own.", example="224"),
    ] = None
    steps: Annotated[int | None, whole("Steps of a denoiser; default: 50.")] = None
    guidance: Annotated[
        bool,
        typer.Option(
            help="Whether a step predicts with the text and without it, and combines both."
        ),
    ] = True
    on: On = None
    cores: Annotated[
        int | None, whole("Logical NeuronCores or GPUs in use; default: all of the instance.")
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Type of matrix products and weights: bf16, fp16, fp32 or fp8; default: bf16 "
            "(T4: fp16).",
            metavar="DTYPE",
        ),
    ] = None
    measured: MeasuredFile = None
    price: PurchaseKind = "on_demand"
    prices: OwnPrices = None
    mixed_prices: MixedPrices = False


@answering
@command(InferOptions)
def infer(options: InferOptions) -> Document:
    """Latency, items a second and USD per million items of encoders, images and diffusion.

    Every core of the instance, or two where a step is guided, has a copy of the model.

    Example: trnsim plan infer bert.json --on inf2.xlarge,g5.xlarge --batch 8 --sequence 128
    """
    rows = catalogue_with(options.prices)
    comparison = Comparison()
    estimates = _estimates(options, rows, comparison)
    comparison.check(estimates)
    refusals = comparison.refusals
    remarks = price_remarks([inference.quote for inference in estimates], rows)
    model = _model_title(options.config)
    items = f"{estimates[0].item}s" if options.batch > 1 else estimates[0].item
    title = f"{model}: batches of {options.batch} {items} on each copy"
    sections = [
        Section("", [Note(title, place="text")]),
        Section(
            "",
            [
                _table(estimates, remarks.mark),
                bound_note(
                    {inference.platform: inference.estimate.parts_s for inference in estimates}
                ),
                Drawing(_parts_chart(estimates, len(estimates) + len(refusals))),
            ],
        ),
        *(Section("", _details(inference)) for inference in estimates),
    ]
    values = [{"model": model, **_values(inference)} for inference in estimates]
    return compared_document(title, values, sections, remarks, "plan-infer/1", refusals)


def _model_title(file: Path) -> str:
    """The model's name; its folder's name if only a config.json or model_index.json names it."""
    has_folder_name = file.name in _FOLDER_FILES and model_name(file) == file.stem
    return file.resolve().parent.name if has_folder_name else model_name(file)


def _estimates(
    options: InferOptions, rows: Catalogue, comparison: Comparison
) -> list[InferenceEstimate]:
    """The estimate for each platform that is not refused."""
    sizes = InputSizes(
        options.batch, options.sequence, options.image, options.steps, options.guidance
    )
    kinds = purchased_platforms(options.on, options.price, is_mixed=options.mixed_prices)
    table = measured_table(options.measured, [name for name, _ in kinds])
    estimate_on = partial(
        estimate,
        options.config,
        sizes=sizes,
        cores=options.cores,
        dtype=None if options.dtype is None else short_dtype(options.dtype),
        measured=table,
        rows=rows,
    )
    return [
        inference
        for name, kind in kinds
        for inference in comparison.ask(name, partial(estimate_on, name, kind=kind))
    ]


def _values(inference: InferenceEstimate) -> dict[str, Any]:
    """An estimate as JSON."""
    return {
        **picked(inference, "platform instance item batch cores copies latency_p50_s=latency_s"),
        **picked(inference, "items_per_s usd_per_million_items=usd_per_million"),
        "estimate": inference.estimate.as_dict(),
        **picked(
            inference, "parts memory_bytes", price=str(inference.quote), notes=inference.notes
        ),
    }


def _table(estimates: Sequence[InferenceEstimate], mark: str) -> Table:
    rows = [
        (
            inference.platform,
            inference.instance,
            f"{inference.copies} on {inference.cores}",
            durations(inference.latency_s),
            amounts(inference.items_per_s),
            amounts(inference.usd_per_million) + mark,
        )
        for inference in estimates
    ]
    return Table(_COLUMNS, rows)


def _parts_chart(estimates: Sequence[InferenceEstimate], count: int) -> str:
    """The chart of the parts of each latency; `count` platforms were asked."""
    rows = []
    for number, inference in enumerate(estimates):
        causes = sorted(inference.estimate.parts_s.items(), key=lambda cause: -cause[1])
        source = answer_pointer(number, count, "estimate", "parts_s")
        latency = seconds(inference.latency_s.p50)
        rows.append(Parts(inference.platform, dict(causes), latency, source))
    return parts_chart("Where the time goes", rows)


def _details(inference: InferenceEstimate) -> list[Block]:
    """The time by cause, its sources, and notes."""
    causes = sorted(inference.estimate.parts_s.items(), key=lambda cause: -cause[1])
    cause_times = ", ".join(f"{name} {seconds(time_s)}" for name, time_s in causes if time_s)
    has_several = sum(part.times for part in inference.parts) > 1
    parts = [
        f"{part.name} x {part.times}: {seconds(part.time_s)}"
        for part in inference.parts
        if has_several
    ]
    lines = [
        *parts,
        *sources_by_phase(inference.estimate.sources),
        *floor_notes(inference.cores // inference.copies),
        *inference.notes,
    ]
    return [
        Note(f"{inference.platform} ({inference.quote}): {cause_times}"),
        Items(lines, indent=2),
    ]
