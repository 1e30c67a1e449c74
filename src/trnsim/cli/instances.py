"""``trnsim instances``: instance types with memory and price, and which of them hold a model."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim.arch.catalogue import Catalogue, Instance
from trnsim.cli.hardware_blocks import GIB, TERA
from trnsim.cli.on import On, platforms
from trnsim.cli.options import AsOf, OwnPrices, day_of, own_rows, parser, price_option
from trnsim.cli.price_blocks import remark
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Block, Document, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.formatting import clipped
from trnsim.place.machine import machine
from trnsim.price import KINDS, Quote, quote
from trnsim.system.holding import holding
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file
from trnsim.workload.resident import cache_bytes, weights_bytes

app = parser()

_SHOWN_FIRST: Final = ("private", "on_demand", "capacity_block", "spot")
"""Kinds in the order in which the first with a price is shown, where none is asked for."""
_NAME: Final = 26
_LISTED: Final = columns(
    "instance | chips | GiB | TB/s | PF/s | USD/h | kind | remark", numbers_from=8
)
_HELD: Final = columns(
    "instance | chips | needed | GiB a rank | USD/h | kind | remark", numbers_from=7
)
_KINDS: Final = (
    "bf16: published dense TFLOP/s of all chips. Kinds of purchase differ from line to line: "
    "trnsim prices compare sets one kind side by side."
)
_FITS: Final = (
    "needed: instances; USD/h: of all of them. That it fits does not say that it is fast: "
    "trnsim plan."
)


@app.command()
@answering
def instances(
    config: Annotated[
        Path | None,
        typer.Option(
            "--for",
            parser=config_file,
            help="List the instances that hold this model: a name, or a config.json.",
            metavar="MODEL",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        whole("Tokens of a sequence with --for; without, all that the model knows.", unit="tokens"),
    ] = None,
    sequences: Annotated[
        int,
        whole("Sequences in memory at one time, with --for.", unit="sequences"),
    ] = 1,
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
    rows = own_rows(prices)
    day = day_of(as_of, rows)
    if kind is not None and kind not in KINDS:
        raise BadInput(f"--price is {kind!r}; legal: {', '.join(KINDS)}")
    known = [
        instance for instance in rows.instances.values() if instance.accelerator in _chips(rows)
    ]
    if on:
        named = {name for platform in platforms(on) for name in platform.instances}
        known = [instance for instance in known if instance.name in named]
    priced = {instance.name: quote_of(instance.name, kind, day, rows) for instance in known}
    if config is None:
        values = [instance_values(instance, priced[instance.name], rows) for instance in known]
        blocks, schema = _table(known, priced, rows), "instances/1"
    else:
        model = read(config)
        kept = _tokens(model, tokens)
        values = [
            _held(instance, priced[instance.name], model, kept, sequences, rows)
            for instance in known
        ]
        blocks = [Note(_head(model, kept, sequences)), *_held_table(values, priced)]
        schema = "instances-for/1"
    *table, note = blocks
    sections = [Section("", table), Section("", [note])]
    return Document("Instances", values, sections, schema=schema)


def _chips(rows: Catalogue) -> set[str]:
    return {*rows.chips, *rows.gpus}


def quote_of(name: str, kind: str | None, day: date, rows: Catalogue) -> Quote:
    """The quote of `kind`; without, of the first kind with a price."""
    kinds = (kind,) if kind is not None else _SHOWN_FIRST
    quotes = [quote(name, purchase_kind, as_of=day, rows=rows) for purchase_kind in kinds]
    return next((price for price in quotes if price.usd_per_hour is not None), quotes[-1])


def _usd(price: Quote, times: int = 1) -> str:
    usd = price.usd_per_hour
    return "none" if usd is None else f"{times * usd:,.5g}"


def _kind(price: Quote) -> str:
    return "-" if price.usd_per_hour is None else price.kind


def _table(known: list[Instance], priced: dict[str, Quote], rows: Catalogue) -> list[Block]:
    bandwidths = {
        instance.name: instance.count * rows.accelerator(instance.accelerator).memory_bytes_per_s
        for instance in known
    }
    lines = [
        (
            clipped(instance.name, _NAME),
            f"{instance.count} {instance.accelerator}",
            f"{instance.memory_bytes / GIB:,.0f}",
            f"{bandwidths[instance.name] / TERA:.3g}",
            _peta(instance, rows),
            _usd(priced[instance.name]),
            _kind(priced[instance.name]),
            remark(priced[instance.name]),
        )
        for instance in known
    ]
    return [Table(_LISTED, lines), Note(_KINDS)]


def _peta(instance: Instance, rows: Catalogue) -> str:
    """Published dense BF16 PFLOP/s of all chips, where there is one."""
    peak = rows.accelerator(instance.accelerator).peak_flop_per_s.get("bf16")
    return "-" if peak is None else f"{instance.count * peak / (1000 * TERA):.3g}"


def instance_values(instance: Instance, price: Quote, rows: Catalogue) -> dict[str, Any]:
    """An instance type as JSON, with its price."""
    chip = rows.accelerator(instance.accelerator)
    return {
        **picked(instance, "name chip=accelerator chips=count"),
        "memory_bytes": float(instance.memory_bytes),
        "memory_bytes_per_s": float(instance.count * chip.memory_bytes_per_s),
        "peak_flop_per_s": {
            dtype: float(instance.count * peak) for dtype, peak in chip.peak_flop_per_s.items()
        },
        **picked(instance, "efa_bytes_per_s topology note source=memory_bytes.provenance.source"),
        **_price_values(price),
    }


def _price_values(price: Quote, times: int = 1) -> dict[str, Any]:
    usd = price.usd_per_hour
    return {
        "usd_per_hour": None if usd is None else float(times * usd),
        "price_kind": None if usd is None else price.kind,
        "price_as_of": price.row.last_seen if usd is not None and price.row else None,
        "is_price_stale": price.is_stale,
    }


def _tokens(model: Architecture, asked: int | None) -> int:
    """Tokens of a sequence: as asked, or all that the model knows.

    Raises:
        BadInput: neither is known.
    """
    if asked is not None:
        return asked
    if not model.max_positions and model.is_generating:
        raise BadInput(f"{model.name} states no longest sequence", fix="give --tokens")
    return max(model.max_positions, 1)


def _held(
    instance: Instance,
    price: Quote,
    model: Architecture,
    tokens: int,
    sequences: int,
    rows: Catalogue,
) -> dict[str, Any]:
    """One instance type: how many of it hold the model, and what that costs an hour."""
    fit = holding(model, machine(instance.name, rows=rows), tokens=tokens, sequences=sequences)
    head = picked(instance, "name chip=accelerator chips=count")
    if fit is None:
        return {**head, "instances": None, **_price_values(price, 0), "usd_per_hour": None}
    return {
        **head,
        **picked(fit, "instances tensor pipeline"),
        "needed_bytes_per_rank": fit.needed_bytes,
        "usable_bytes_per_rank": fit.usable_bytes,
        **_price_values(price, fit.instances),
    }


def _head(model: Architecture, tokens: int, sequences: int) -> str:
    weights = weights_bytes(model) / GIB
    kept = sequences * cache_bytes(model, tokens, source=tokens) / GIB if model.is_generating else 0
    return (
        f"{model.name}: weights {weights:,.4g} GiB; keys and values of {sequences:,} x "
        f"{tokens:,} tokens {kept:,.4g} GiB"
    )


def _held_table(held: list[dict[str, Any]], priced: dict[str, Quote]) -> list[Block]:
    lines = [
        (
            clipped(row["name"], _NAME),
            f"{row['chips']} {row['chip']}",
            "none fits" if row["instances"] is None else f"{row['instances']:,}",
            "-"
            if row["instances"] is None
            else f"{row['needed_bytes_per_rank'] / GIB:.3g} of "
            f"{row['usable_bytes_per_rank'] / GIB:.3g}",
            "-" if row["instances"] is None else _usd(priced[row["name"]], row["instances"]),
            _kind(priced[row["name"]]),
            remark(priced[row["name"]]),
        )
        for row in held
    ]
    return [Table(_HELD, lines), Note(_FITS)]
