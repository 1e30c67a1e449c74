"""``trnsim explain``: an instruction, a claim, a chip, an instance, or how prices work."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim.arch.catalogue import catalogue
from trnsim.cli.claim_document import claim_section
from trnsim.cli.hardware_text import WIDTH, announced_card, chip_card, instance_card
from trnsim.cli.options import parser
from trnsim.cli.price_text import in_words, quotes_of, story
from trnsim.cli.terminal import echo, width
from trnsim.document.text import section_text
from trnsim.errors import BadInput
from trnsim.formatting import text_table
from trnsim.isa import Instruction
from trnsim.isa.reference.page import page, summary
from trnsim.price import KINDS, today
from trnsim.price.quotes import STALE_AFTER
from trnsim.system.claims import claims

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue

app = parser()

_wrap: Final = partial(wrap, width=WIDTH, break_on_hyphens=False)
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
        rows = [(opcode, summary(made)) for opcode, made in sorted(Instruction.registry.items())]
        echo(text_table(("instruction", "values"), [(o, " ".join(s.split())) for o, s in rows]))
        return
    instruction = _instruction(name)
    if instruction is not None:
        echo(page(instruction), ends_line=False)
        return
    echo("\n".join(_lines(name)))


def _instruction(name: str) -> type[Instruction] | None:
    """The instruction called `name`, also as nisa.nc_matmul or NcMatmul."""
    wanted = name.rpartition(".")[2]
    for opcode, made in Instruction.registry.items():
        if wanted in (opcode, made.__name__):
            return made
    return None


def _lines(name: str) -> list[str]:
    """What `name` is, of claims, chips, instances and prices.

    Raises:
        BadInput: it is nothing of these, nor an instruction.
    """
    rows = catalogue()
    if name.lower() in PRICE or name in KINDS:
        return list(_prices(rows, KINDS if name.lower() in PRICE else (name,)))
    found = _hardware(name.lower(), rows)
    if found:
        return found
    judged = {claim.id: claim for claim in claims(rows)}
    if name.upper() in judged:
        section = claim_section(judged[name.upper()])
        return section_text("", section.blocks, width()).splitlines()
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


def _hardware(name: str, rows: Catalogue) -> list[str]:
    """The card of a chip, of an announced one or of an instance; none for another name."""
    for chip in (*rows.chips.values(), *rows.gpus.values()):
        if name in (chip.name.lower(), *(alias.lower() for alias in chip.aliases)):
            return chip_card(chip, rows)
    for announced in rows.announced.values():
        if name == announced.name.lower():
            return announced_card(announced)
    for instance in rows.instances.values():
        if name == instance.name.lower():
            day = today(rows)
            quotes = quotes_of(instance.name, KINDS, day, None, rows)
            prices = story(instance.name, quotes, day, rows) if quotes else "no price of any kind"
            return [*instance_card(instance, rows), "", prices]
    return []


def _prices(rows: Catalogue, kinds: tuple[str, ...]) -> Iterator[str]:
    """Kinds of purchase, how each is sold, and the rules of comparing."""
    yield "A price has a kind of purchase, a region and a day. Kinds of purchase:"
    for kind in kinds:
        terms = rows.terms.get(kind)
        if terms is not None:
            text = f"{kind}: {in_words(terms)} ({terms.provenance.source})"
            yield from _wrap(text, initial_indent="  ", subsequent_indent="    ")
    for rule in _RULES:
        yield from _wrap(rule)
