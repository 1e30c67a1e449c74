"""``trnsim explain``: an instruction, a claim, a chip, an instance, or how prices work."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim.arch.catalogue import catalogue
from trnsim.cli.claim_document import claim_section
from trnsim.cli.hardware_blocks import announced_card, chip_card, instance_card
from trnsim.cli.options import parser
from trnsim.cli.price_blocks import in_words, quotes_of, story_sections
from trnsim.cli.report_files import answer
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document, Note, Section, Table, columns
from trnsim.errors import BadInput
from trnsim.isa import Instruction
from trnsim.isa.reference.page import page, summary
from trnsim.price import KINDS, today
from trnsim.price.quotes import STALE_AFTER
from trnsim.system.claims import claims

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue

app = parser()

PRICE: Final = ("price", "prices")
_NEAR: Final = 5
_RULES: Final = (
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
def explain(
    name: Annotated[
        str,
        typer.Argument(
            help="An instruction, as nki.isa names it; a claim (C07), a chip, an instance, price.",
            metavar="[NAME]",
        ),
    ] = "",
) -> None:
    """Print what an instruction takes, where it runs, what it computes, and what it costs.

    Likewise a claim with our figures, a chip or an instance with sources and contradictions, and
    with price how kinds of purchase differ. Without a name, list all instructions.

    Example: trnsim explain nc_matmul
    """
    if not name:
        known = sorted(Instruction.registry.items())
        rows = [(opcode, " ".join(summary(made).split())) for opcode, made in known]
        table = Table(columns("instruction | values", numbers_from=2), rows)
        answer(Document("Instructions", None, [Section("", [table])]))
        return
    instruction = _instruction(name)
    if instruction is not None:
        echo(page(instruction), ends_line=False)
        return
    answer(Document(name, None, _sections(name)))


def _instruction(name: str) -> type[Instruction] | None:
    """The instruction called `name`, also as nisa.nc_matmul or NcMatmul."""
    wanted = name.rpartition(".")[2]
    for opcode, made in Instruction.registry.items():
        if wanted in (opcode, made.__name__):
            return made
    return None


def _sections(name: str) -> list[Section]:
    """The sections about `name`: a claim, a chip, an instance or prices.

    Raises:
        BadInput: it is nothing of these, nor an instruction.
    """
    rows = catalogue()
    if name.lower() in PRICE or name in KINDS:
        return [Section("", _prices(rows, KINDS if name.lower() in PRICE else (name,)))]
    found = _hardware(name.lower(), rows)
    if found:
        return found
    judged = {claim.id: claim for claim in claims(rows)}
    if name.upper() in judged:
        return [claim_section(judged[name.upper()])]
    legal = [*Instruction.registry, *judged, *_names(rows), *PRICE]
    wanted = {one.lower(): one for one in legal}
    near = get_close_matches(name.rpartition(".")[2].lower(), wanted, _NEAR, cutoff=0.4)
    near += get_close_matches(name.lower(), wanted, 1)
    said = ", ".join(dict.fromkeys(wanted[one] for one in near))
    raise BadInput(
        f"{name} is no instruction, claim, chip or instance; near: {said or 'nothing'}",
        fix="trnsim explain lists all instructions; see also trnsim claims, chips, instances",
    )


def _names(rows: Catalogue) -> Iterator[str]:
    chips = {**rows.chips, **rows.gpus}
    yield from (*chips, *rows.announced, *rows.instances)
    yield from (alias for chip in chips.values() for alias in chip.aliases)


def _hardware(name: str, rows: Catalogue) -> list[Section]:
    """The card of a chip, of an announced one or of an instance; none for another name."""
    for chip in (*rows.chips.values(), *rows.gpus.values()):
        if name in (chip.name.lower(), *(alias.lower() for alias in chip.aliases)):
            return [Section("", chip_card(chip, rows))]
    for announced in rows.announced.values():
        if name == announced.name.lower():
            return [Section("", announced_card(announced))]
    for instance in rows.instances.values():
        if name == instance.name.lower():
            day = today(rows)
            quotes = quotes_of(instance.name, KINDS, day, None, rows)
            none = [Section("", [Note("no price of any kind")])]
            prices = story_sections(instance.name, quotes, day, rows) if quotes else none
            return [Section("", instance_card(instance, rows)), *prices]
    return []


def _prices(rows: Catalogue, kinds: tuple[str, ...]) -> list[Note]:
    """Kinds of purchase, how each is sold, and the rules of comparing."""
    head = "A price has a kind of purchase, a region and a day. Kinds of purchase:"
    known = [(kind, rows.terms[kind]) for kind in kinds if kind in rows.terms]
    sold = [f"{kind}: {in_words(terms)} ({terms.provenance.source})" for kind, terms in known]
    return [
        Note(head),
        *(Note(one, indent=2, hanging=2) for one in sold),
        *(Note(rule, hanging=0) for rule in _RULES),
    ]
