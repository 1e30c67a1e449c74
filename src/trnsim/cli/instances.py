"""``trnsim instances``: instance types with memory and price, and which of them hold a model."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim.arch.catalogue import Catalogue, Instance
from trnsim.cli.hardware_blocks import GIB, TERA
from trnsim.cli.on import On, platforms
from trnsim.cli.options import AsOf, OwnPrices, catalogue_with, day_of, parser, price_option
from trnsim.cli.price_blocks import remark
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Block, Column, Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.formatting import clipped
from trnsim.place.machine import machine
from trnsim.price import Quote, check_kind, quote
from trnsim.system.holding import smallest_holding
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file
from trnsim.workload.resident import cache_bytes, weights_bytes

app = parser()

_KIND_ORDER: Final = ("private", "on_demand", "capacity_block", "spot")
"""Order of kinds without --price: the first kind with a price is shown."""
_NAME_WIDTH: Final = 26  # characters of the text
_NAMES: Final = (Column("instance", place="text"), Column("instance", place="page"))
_INSTANCE_COLUMNS: Final = (
    *_NAMES,
    *columns("chips | GiB | TB/s | PF/s | USD/h | kind | remark", numbers_to=5),
)
_FIT_COLUMNS: Final = (
    *_NAMES,
    *columns("chips | needed | GiB a rank | USD/h | kind | remark", numbers_to=4),
)
_KINDS_NOTE: Final = (
    "Of all chips: memory in GiB, its TB/s, published dense BF16 PF/s. Kinds of purchase differ by "
    "line: trnsim prices compare sets one kind side by side."
)
_FITS_NOTE: Final = (
    "needed: number of instances; USD/h: of all of them. That a model fits does not say that it is "
    "fast: trnsim plan estimates times."
)


_Config = Annotated[
    Path | None,
    typer.Option(
        "--for",
        parser=config_file,
        help="List the instances that hold this model: a name, or a config.json.",
        metavar="MODEL",
    ),
]
_Tokens = Annotated[
    int | None,
    whole(
        "Tokens of a sequence with --for; default: as many as the model has positions.",
        unit="tokens",
        minimum=1,
    ),
]
_Sequences = Annotated[
    int, whole("Sequences in memory at one time, with --for.", unit="sequences", minimum=1)
]


@app.command()
@answering
def instances(
    config: _Config = None,
    tokens: _Tokens = None,
    sequences: _Sequences = 1,
    kind: Annotated[
        str | None, price_option("on demand where that is sold, else a capacity block")
    ] = None,
    on: On = None,
    as_of: AsOf = None,
    prices: OwnPrices = None,
) -> Document:
    """List instance types with memory and price, or which of them hold a model.

    With --for: weights and the keys and values of the sequences, spread over the fewest instances.
    A price is on demand where there is one, else of a capacity block; the kind stands beside it.

    Example: trnsim instances --for llama-3.1-8b --tokens 8192 --sequences 16
    """
    catalogue = catalogue_with(prices)
    day = day_of(as_of, catalogue)
    if config is None and (tokens is not None or sequences != 1):
        option = "--tokens" if tokens is not None else "--sequences"
        raise BadInput(f"{option} without --for", fix="name the model: --for llama-3.1-8b")
    if kind is not None:
        check_kind(kind, f"--price is {kind!r}")
    accelerators = {*catalogue.chips, *catalogue.gpus}
    instance_types = [
        row for row in catalogue.instances.values() if row.accelerator in accelerators
    ]
    if on:
        names = {name for platform in platforms(on) for name in platform.instances}
        instance_types = [instance for instance in instance_types if instance.name in names]
    quotes = {
        instance.name: quote_of(instance.name, kind, day, catalogue) for instance in instance_types
    }
    if config is None:
        values = [
            instance_values(instance, quotes[instance.name], catalogue)
            for instance in instance_types
        ]
        rows = [_row(instance, quotes[instance.name], catalogue) for instance in instance_types]
        blocks: list[Block] = [Table(_INSTANCE_COLUMNS, rows), Note(_KINDS_NOTE)]
        schema = "instances/1"
    else:
        model = read(config)
        length = _tokens_of_sequence(model, tokens)
        values = [
            _fit_values(instance, quotes[instance.name], model, length, sequences, catalogue)
            for instance in instance_types
        ]
        blocks = [Note(_size_sentence(model, length, sequences)), *_fit_blocks(values, quotes)]
        schema = "instances-for/1"
    *table, footnote = blocks
    sections = [Section("", table), Section("", [footnote])]
    return Document("Instances", values, sections, schema=schema)


def quote_of(name: str, kind: str | None, day: date, catalogue: Catalogue) -> Quote:
    """The quote of an instance by `kind`; if that is None, by the first kind with a price."""
    kinds = (kind,) if kind is not None else _KIND_ORDER
    quotes = [quote(name, purchase_kind, as_of=day, rows=catalogue) for purchase_kind in kinds]
    return next((offer for offer in quotes if offer.usd_per_hour is not None), quotes[-1])


def _usd_text(quote: Quote, count: int = 1) -> str:
    usd = quote.usd_per_hour
    return "none" if usd is None else f"{count * usd:,.5g}"


def _kind_text(quote: Quote) -> str:
    return "-" if quote.usd_per_hour is None else quote.kind


def _row(instance: Instance, quote: Quote, catalogue: Catalogue) -> tuple[str, ...]:
    """An instance type in the table: the memory and the BF16 peak of all its chips, its price."""
    chip = catalogue.accelerator(instance.accelerator)
    peak = chip.peak_flop_per_s.get("bf16")
    return (
        clipped(instance.name, _NAME_WIDTH),
        instance.name,
        f"{instance.count} {instance.accelerator}",
        f"{instance.memory_bytes / GIB:,.0f}",
        f"{instance.count * chip.memory_bytes_per_s / TERA:.3g}",
        "-" if peak is None else f"{instance.count * peak / (1000 * TERA):.3g}",
        _usd_text(quote),
        _kind_text(quote),
        remark(quote),
    )


def instance_values(instance: Instance, quote: Quote, catalogue: Catalogue) -> dict[str, Any]:
    """An instance type as JSON, with its price."""
    chip = catalogue.accelerator(instance.accelerator)
    return {
        **picked(instance, "name chip=accelerator chips=count"),
        "memory_bytes": float(instance.memory_bytes),
        "memory_bytes_per_s": float(instance.count * chip.memory_bytes_per_s),
        "peak_flop_per_s": {
            dtype: float(instance.count * peak) for dtype, peak in chip.peak_flop_per_s.items()
        },
        **picked(instance, "efa_bytes_per_s topology note source=memory_bytes.provenance.source"),
        **_price_values(quote),
    }


def _price_values(quote: Quote, times: int = 1) -> dict[str, Any]:
    usd = quote.usd_per_hour
    return {
        "usd_per_hour": None if usd is None else float(times * usd),
        "price_kind": None if usd is None else quote.kind,
        "price_as_of": quote.row.last_seen if usd is not None and quote.row else None,
        "is_price_stale": quote.is_stale,
    }


def _tokens_of_sequence(model: Architecture, tokens: int | None) -> int:
    """Tokens of a sequence: --tokens, or as many as the model has positions.

    Raises:
        BadInput: neither is known.
    """
    if tokens is not None:
        return tokens
    if not model.max_positions and model.is_generating:
        raise BadInput(f"{model.name} states no longest sequence", fix="give --tokens")
    return max(model.max_positions, 1)


def _fit_values(
    instance: Instance,
    quote: Quote,
    model: Architecture,
    tokens: int,
    sequences: int,
    catalogue: Catalogue,
) -> dict[str, Any]:
    """An instance type as JSON: the number of instances that hold the model, and their price."""
    fit = smallest_holding(
        model, machine(instance.name, rows=catalogue), tokens=tokens, sequences=sequences
    )
    instance_type = picked(instance, "name chip=accelerator chips=count")
    if fit is None:
        return {**instance_type, "instances": None, **_price_values(quote, 0), "usd_per_hour": None}
    return {
        **instance_type,
        **picked(fit, "instances tensor pipeline"),
        "needed_bytes_per_rank": fit.needed_bytes,
        "usable_bytes_per_rank": fit.usable_bytes,
        **_price_values(quote, fit.instances),
    }


def _size_sentence(model: Architecture, tokens: int, sequences: int) -> str:
    """The bytes of a model's weights and KV cache, in words."""
    weights = weights_bytes(model) / GIB
    cache = sequences * cache_bytes(model, tokens, source=tokens) if model.is_generating else 0
    return (
        f"{model.name}: weights {weights:,.4g} GiB; keys and values of {sequences:,} x "
        f"{tokens:,} tokens {cache / GIB:,.4g} GiB"
    )


def _fit_blocks(fits: list[dict[str, Any]], quotes: dict[str, Quote]) -> list[Block]:
    lines = [
        (
            clipped(row["name"], _NAME_WIDTH),
            row["name"],
            f"{row['chips']} {row['chip']}",
            "none fits" if row["instances"] is None else f"{row['instances']:,}",
            "-"
            if row["instances"] is None
            else f"{row['needed_bytes_per_rank'] / GIB:.3g} of "
            f"{row['usable_bytes_per_rank'] / GIB:.3g}",
            "-" if row["instances"] is None else _usd_text(quotes[row["name"]], row["instances"]),
            _kind_text(quotes[row["name"]]),
            remark(quotes[row["name"]]),
        )
        for row in fits
    ]
    return [Table(_FIT_COLUMNS, lines), Note(_FITS_NOTE)]
