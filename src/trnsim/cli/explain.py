"""``trnsim explain``: an instruction, a claim, a chip, an instance, or how prices work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Final

import typer

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.cli.chips import announced_values, chip_values
from trnsim.cli.claim_document import claim_document
from trnsim.cli.hardware_blocks import announced_card, chip_card, instance_card
from trnsim.cli.instances import instance_values, quote_of
from trnsim.cli.options import parser
from trnsim.cli.price_blocks import history_sections, quotes_of, terms_text
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document, MonospaceLines, Note, Section, Table, columns
from trnsim.document.from_markdown import sections
from trnsim.errors import BadInput
from trnsim.isa import Instruction
from trnsim.isa.reference.page import call, page, summary
from trnsim.price import KINDS, today
from trnsim.price.quotes import STALE_AFTER
from trnsim.system.claims import claims

app = parser()

PRICE: Final = ("price", "prices")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
"""A link of a page of docs/generated/isa to a page beside its folder."""
_MOST_SIMILAR_NAMES: Final = 5
_PRICE_RULES: Final = (
    "No kind stands in for another: where AWS publishes no price of a kind, there is none.",
    (
        "Two kinds in one comparison are refused unless --mixed-prices, and then every line says "
        "so: an hour on demand ends when you like, an hour of a block is one of days paid ahead."
    ),
    (
        f"A price more than {STALE_AFTER.days} days old says so; prices of days further apart "
        "than that are compared with both days beside them."
    ),
    (
        "Your own prices win: --prices FILE with instance, kind, usd_per_hour or "
        "discount_percent, and as_of."
    ),
    "See trnsim prices show, compare, refresh.",
)


@app.command()
@answering
def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="An instruction, as nki.isa names it; a claim (C07), a chip, an instance, price.",
            metavar="[NAME]",
        ),
    ] = "",
) -> Document:
    """Print what an instruction takes, where it runs, what it computes, and what it costs.

    Likewise a claim with our figures, a chip or an instance with sources and contradictions, and
    with price how kinds of purchase differ. Without a name, list all instructions.

    Example: trnsim explain nc_matmul
    """
    if not name:
        return _instructions()
    instruction = _instruction(name)
    return _other_document(name) if instruction is None else _instruction_document(instruction)


def _instructions() -> Document:
    """All instructions, each with what it computes."""
    rows = [
        (opcode, " ".join(summary(instruction).split()))
        for opcode, instruction in sorted(Instruction.registry.items())
    ]
    values = [{"instruction": opcode, "values": values} for opcode, values in rows]
    table = Table(columns("instruction | values", numbers_from=2), rows)
    return Document("Instructions", values, [Section("", [table])], schema="explain-list/1")


def _instruction_document(instruction: type[Instruction]) -> Document:
    """The page of an instruction."""
    lines = page(instruction)
    values = {
        "instruction": instruction.opcode,
        "values": " ".join(summary(instruction).split()),
        "call": call(instruction),
        "source": instruction.source,
        "page": lines,
    }
    page_text = _LINK.sub(r"\1 (docs/generated/\2)", lines.rstrip())
    text = Section("", [MonospaceLines(page_text)], place="text")
    page_sections = [text, *sections(lines)]
    return Document(instruction.opcode, values, page_sections, schema="explain-instruction/1")


def _instruction(name: str) -> type[Instruction] | None:
    """The instruction called `name`, also as nisa.nc_matmul or NcMatmul."""
    short_name = name.rpartition(".")[2]
    for opcode, instruction in Instruction.registry.items():
        if short_name in (opcode, instruction.__name__):
            return instruction
    return None


def _other_document(name: str) -> Document:
    """A claim, a chip, an instance or prices, with the values that their own commands give.

    Raises:
        BadInput: nothing has that name, nor an instruction.
    """
    rows = catalogue()
    if name.lower() in PRICE or name in KINDS:
        return _prices(rows, KINDS if name.lower() in PRICE else (name,))
    hardware = _hardware(name.lower(), rows)
    if hardware is not None:
        return hardware
    claims_by_id = {claim.id: claim for claim in claims(rows)}
    if name.upper() in claims_by_id:
        return claim_document(claims_by_id[name.upper()])
    legal = [*Instruction.registry, *claims_by_id, *_names(rows), *PRICE]
    names = {legal_name.lower(): legal_name for legal_name in legal}
    similar_keys = get_close_matches(
        name.rpartition(".")[2].lower(), names, _MOST_SIMILAR_NAMES, cutoff=0.4
    )
    similar_keys += get_close_matches(name.lower(), names, 1)
    similar_names = ", ".join(dict.fromkeys(names[match] for match in similar_keys))
    raise BadInput(
        f"{name} is no instruction, claim, chip or instance; near: {similar_names or 'nothing'}",
        fix="trnsim explain lists all instructions; see also trnsim claims, chips, instances",
    )


def _names(rows: Catalogue) -> Iterator[str]:
    chips = {**rows.chips, **rows.gpus}
    yield from (*chips, *rows.announced, *rows.instances)
    yield from (alias for chip in chips.values() for alias in chip.aliases)


def _hardware(name: str, rows: Catalogue) -> Document | None:
    """The card of a chip, an announced chip or an instance; None for another name."""
    for chip in (*rows.chips.values(), *rows.gpus.values()):
        if name in (chip.name.lower(), *(alias.lower() for alias in chip.aliases)):
            card = [Section("", chip_card(chip, rows))]
            return Document(chip.name, chip_values(chip), card, schema="chips/1")
    for announced in rows.announced.values():
        if name == announced.name.lower():
            card = [Section("", announced_card(announced))]
            return Document(announced.name, announced_values(announced), card, schema="chips/1")
    for instance in rows.instances.values():
        if name == instance.name.lower():
            day = today(rows)
            quotes = quotes_of(instance.name, KINDS, day, None, rows)
            no_price = [Section("", [Note("no price of any kind")])]
            prices = history_sections(instance.name, quotes, day, rows) if quotes else no_price
            card = [Section("", instance_card(instance, rows)), *prices]
            values = instance_values(instance, quote_of(instance.name, None, day, rows), rows)
            return Document(instance.name, values, card, schema="instances/1")
    return None


def _prices(rows: Catalogue, kinds: tuple[str, ...]) -> Document:
    """Kinds of purchase, how each is sold, and the rules of comparing."""
    head = "A price has a kind of purchase, a region and a day. Kinds of purchase:"
    terms = {kind: rows.terms[kind] for kind in kinds if kind in rows.terms}
    values = [
        {"kind": kind, "terms": terms_text(term), "source": term.provenance.source}
        for kind, term in terms.items()
    ]
    notes = [
        Note(head),
        *(Note("{kind}: {terms} ({source})".format(**row), 2, 2) for row in values),
        *(Note(rule, hanging=0) for rule in _PRICE_RULES),
    ]
    return Document("Prices", values, [Section("", notes)], schema="explain-prices/1")
