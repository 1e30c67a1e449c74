"""``trnsim prices``: dated prices by kind of purchase, side by side, and today's from AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.arch.catalogue import Catalogue
from trnsim.cli.options import AsOf, MixedPrices, OwnPrices, catalogue_with, day_of, parser
from trnsim.cli.price_blocks import (
    history_sections,
    overview,
    quote_values,
    quotes_of,
    remark,
    sale_terms,
)
from trnsim.cli.quantity_options import number, whole
from trnsim.cli.report_files import answering
from trnsim.cli.terminal import echo
from trnsim.document.answer import Block, Document, Note, Section, Table, columns
from trnsim.errors import BadInput
from trnsim.place.platform import platform
from trnsim.price import (
    KINDS,
    Quote,
    caveats,
    check_kind,
    credit_lines,
    priced_kinds,
    quote,
    relative_cost,
)
from trnsim.price.live import as_table, instance_types
from trnsim.price.live import refresh as read_from_aws
from trnsim.price.regions import check_region

app = parser(
    help="Show dated prices, compare them, or read today's from AWS.", no_args_is_help=True
)

_COMPARISON_COLUMNS: Final = columns(
    "instance | kind | USD/h | a chip | a PFLOP/s | vs first | as of | remark",
    numbers_from=2,
    numbers_to=6,
)

_USUAL_KIND: Final = "capacity_block"
"""The kind of purchase of a comparison, if no option names another and all have such a price."""

Region = Annotated[
    str | None, typer.Option(help="The code of an AWS region, such as us-east-1.", metavar="REGION")
]
Kind = Annotated[
    str | None, typer.Option(help="A kind of purchase: on_demand, spot, ...", metavar="KIND")
]


@app.command()
@answering
def show(
    instance: Annotated[
        str, typer.Argument(help="An instance type or an UltraServer.", metavar="[INSTANCE]")
    ] = "",
    as_of: AsOf = None,
    region: Region = None,
    kind: Kind = None,
    days: Annotated[
        float | None,
        number("Say which kinds can be bought for so long.", unit="days", exclusive_minimum=0),
    ] = None,
    instances: Annotated[
        int | None,
        whole("Say which kinds can be bought as so many instances.", minimum=1),
    ] = None,
    prices: OwnPrices = None,
) -> Document:
    """Print the price of each kind of purchase, or of one instance its history and its terms.

    A kind never stands in for another. A price more than 90 days old says so beside it.

    Example: trnsim prices show trn2.48xlarge --days 30 --instances 4
    """
    for option, value in (("--days", days), ("--instances", instances)):
        if value is not None and not instance:
            raise BadInput(
                f"{option} {value:g} is for one instance type, and none is named",
                fix=f"for example trnsim prices show trn2.48xlarge {option} {value:g}",
            )
    rows = catalogue_with(prices)
    day = day_of(as_of, rows)
    kinds = KINDS if kind is None else (_checked_kind(kind),)
    if region is not None:
        check_region(region)
    instance = instance and _instance_name(instance, rows)
    names = [instance] if instance else _priced_names(rows)
    quotes = [quoted for name in names for quoted in quotes_of(name, kinds, day, region, rows)]
    if not quotes:
        of_instance = f" of {instance}" if instance else ""
        in_region = f" in {region}" if region else ""
        raise BadInput(f"no price{of_instance}{in_region} as {kind or 'any kind'}")
    sections = [Section("", [overview(quotes)])]
    if instance:
        history, *sources = history_sections(instance, quotes, day, rows)
        sale_notes = [*sale_terms(quotes, days, instances), *map(Note, credit_lines(rows))]
        head = Note(f"{instance} on {day}")
        sale = Section("how it is sold:", sale_notes)
        sections = [Section("", [head, *history.blocks]), *sources, sale]
    values = [quote_values(quoted) for quoted in quotes]
    return Document("Prices", values, sections, schema="prices-show/1")


def _checked_kind(kind: str) -> str:
    check_kind(kind, f"--kind is {kind!r}")
    return kind


def _priced_names(rows: Catalogue) -> list[str]:
    """Names with a price: instances in the catalogue's order, then names outside of it."""
    names = dict.fromkeys(price.instance for price in rows.prices)
    further_names = [name for name in names if name not in rows.instances]
    return [*(name for name in rows.instances if name in names), *further_names]


def _instance_name(name: str, rows: Catalogue) -> str:
    """`name` itself if it has a price, else the usual instance of the platform called `name`.

    Raises:
        BadInput: there is no such platform.
    """
    return name if name in _priced_names(rows) else platform(name, rows).instance


@app.command()
@answering
def compare(
    instances: Annotated[
        list[str],
        typer.Argument(
            help="Instances; NAME:KIND names a kind of its own.", metavar="INSTANCE...", min=1
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="A kind of purchase: on_demand, spot, ...; default: capacity_block, or the first "
            "kind in which all have a price.",
            metavar="KIND",
        ),
    ] = None,
    as_of: AsOf = None,
    region: Region = None,
    mixed_prices: MixedPrices = False,
    prices: OwnPrices = None,
) -> Document:
    """Compare instances per hour, per chip and per peak BF16 with the first, of one kind.

    Two kinds of purchase do not compare: one rents by the second, the other pays for weeks. Prices
    of days more than 90 apart are compared with both days beside them.

    Example: trnsim prices compare trn2.48xlarge p5en.48xlarge --kind capacity_block
    """
    rows = catalogue_with(prices)
    day = day_of(as_of, rows)
    words = [text.partition(":") for text in instances]
    names = [_instance_name(name, rows) for name, _, _ in words]
    kinds = {name: priced_kinds(name, day, region=region, rows=rows) for name in names}
    own_kinds = [_checked_kind(own_kind) for _, _, own_kind in words if own_kind]
    usual_kind = _USUAL_KIND if kind is None else _checked_kind(kind)
    if kind is not None and len(own_kinds) == len(words):
        raise BadInput(
            f"--kind {kind} has no effect: each instance names its own kind",
            fix="leave --kind out, or the kind of an instance",
        )
    if kind is None and not own_kinds:
        usual_kind = next((kind for kind in kinds[names[0]] if _has_all(kinds, kind)), usual_kind)
    quotes = [
        quote(name, own_kind or usual_kind, as_of=day, region=region, rows=rows)
        for name, (_, _, own_kind) in zip(names, words, strict=True)
    ]
    try:
        price_caveats = caveats(quotes, is_mixed_on_purpose=mixed_prices)
    except BadInput as error:
        raise BadInput(error.reason, fix="name one kind, or add --mixed-prices") from error
    table = [_compared_line(quoted, quotes[0], rows) for quoted in quotes]
    values = [{**line, "caveats": price_caveats} for line in table]
    blocks = [*_comparison_blocks(table, quotes, price_caveats), *_kind_notes(quotes, kinds)]
    sections = [Section("", blocks)]
    return Document("Prices compared", values, sections, schema="prices-compare/1")


def _has_all(kinds: Mapping[str, Sequence[str]], kind: str) -> bool:
    return all(kind in sold_kinds for sold_kinds in kinds.values())


def _kind_notes(quotes: Sequence[Quote], kinds: Mapping[str, Sequence[str]]) -> list[Note]:
    """Notes on lines without a price: the kinds of purchase in which their instances have one."""
    notes = [
        f"{quoted.instance} has no price as {quoted.kind}, but as {', '.join(sold_kinds)}"
        if (sold_kinds := kinds[quoted.instance])
        else f"{quoted.instance} has no public price of any kind"
        for quoted in quotes
        if quoted.usd_per_hour is None
    ]
    common_kinds = [kind for kind in kinds[quotes[0].instance] if _has_all(kinds, kind)]
    if notes and common_kinds:
        notes.append(f"all have prices as {', '.join(common_kinds)}: --kind {common_kinds[0]}")
    elif notes and all(kinds.values()):
        notes.append("no kind has prices of all: NAME:KIND and --mixed-prices set kinds together")
    return [Note(text) for text in dict.fromkeys(notes)]


def _compared_line(quoted: Quote, first: Quote, rows: Catalogue) -> dict[str, Any]:
    """The line of a quote: USD per hour, chip and peak BF16, and ratios to the first quote's."""
    usd = quoted.usd_per_hour
    chips, peak = _chips_and_peak(quoted.instance, rows)
    _, peak_of_first = _chips_and_peak(first.instance, rows)
    ratio = peak / peak_of_first if peak and peak_of_first else None
    return {
        "instance": quoted.instance,
        "kind": quoted.kind,
        "usd_per_hour": usd,
        "usd_per_chip_hour": usd / chips if usd is not None and chips else None,
        "usd_per_peak_bf16_pflop_per_s_hour": usd / peak * 1e15
        if usd is not None and peak
        else None,
        "over_first_per_hour": relative_cost(quoted, first, is_mixed_on_purpose=True),
        "over_first_per_peak": relative_cost(quoted, first, ratio, is_mixed_on_purpose=True)
        if ratio
        else None,
        "as_of": str(quoted.row.last_seen) if quoted.row else None,
    }


def _chips_and_peak(name: str, rows: Catalogue) -> tuple[int, float | None]:
    """Chips of an instance and its published BF16 FLOP per second; (0, None) if it is unknown."""
    instance = rows.instances.get(name)
    if instance is None:
        return 0, None
    chip = {**rows.chips, **rows.gpus}.get(instance.accelerator)
    peak = chip.peak_flop_per_s.get("bf16") if chip else None
    return instance.count, None if peak is None else instance.count * peak


def _comparison_blocks(
    table: list[dict[str, Any]], quotes: list[Quote], price_caveats: tuple[str, ...]
) -> list[Block]:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    cells = [
        (
            line["instance"],
            line["kind"],
            "none public" if line["usd_per_hour"] is None else f"{line['usd_per_hour']:.2f}",
            cell(line["usd_per_chip_hour"], ".3f"),
            cell(line["usd_per_peak_bf16_pflop_per_s_hour"], ".2f"),
            cell(line["over_first_per_peak"], ".2f"),
            line["as_of"] or "-",
            remark(quoted),
        )
        for line, quoted in zip(table, quotes, strict=True)
    ]
    row_notes = dict.fromkeys(range(len(cells)), price_caveats)
    note = (
        "a chip: USD/h of each chip; a PFLOP/s: USD/h divided by published dense BF16 PFLOP/s; vs "
        "first: ratio to a PFLOP/s of the first line"
    )
    return [Table(_COMPARISON_COLUMNS, cells, row_notes=row_notes), Note(note)]


@app.command()
def refresh(
    instances: Annotated[
        list[str] | None,
        typer.Argument(
            help="Instance types; default: all of the catalogue.", metavar="[INSTANCE...]"
        ),
    ] = None,
    region: Region = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            help="Write the prices there instead of printing them, as a file for --prices.",
            metavar="FILE.csv",
        ),
    ] = None,
) -> None:
    """Read today's prices from AWS with your credentials, as a file for --prices.

    On demand by pricing:GetProducts, spot by ec2:DescribeSpotPriceHistory, capacity blocks by
    ec2:DescribeCapacityBlockOfferings. Needs pip install 'trnsim[aws]'. Nothing is bought.

    Example: trnsim prices refresh trn1.32xlarge --region us-east-1 --output prices.csv
    """
    if region is not None:
        check_region(region)
    if output is not None:
        files.check_writable(output)
        if output.suffix.lower() != ".csv":
            csv_file = output.with_suffix(".csv")
            raise BadInput(f"--output {output}; legal ending: .csv", fix=f"--output {csv_file}")
    legal = instance_types()
    for name in instances or ():
        if name not in legal:
            similar_names = get_close_matches(name, legal)
            raise BadInput(
                f"{name!r} is no instance type; legal: {', '.join(legal)}",
                fix=f"perhaps {' or '.join(similar_names)}"
                if similar_names
                else "trnsim instances lists them",
            )
    prices = read_from_aws(region, list(instances or legal))
    table = as_table(prices)
    if output is None:
        echo(table, ends_line=False)
        return
    files.write(output, table)
    echo(f"wrote {output}: {len(prices)} prices")
