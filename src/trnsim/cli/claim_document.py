"""Claims as a document: a table of all, and a section of each with its bases and sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    FoldedBlocks,
    Items,
    Mark,
    Note,
    PageLink,
    Section,
    Table,
    columns,
)
from trnsim.document.values import picked
from trnsim.system.claims import Claim, ClaimBasis, ClaimPart, counts
from trnsim.system.claims.amounts import Grade
from trnsim.system.claims.verdict import TOLERANCE, ClaimVerdict, figures_of, text

_TITLE: Final = "What is claimed of Trainium and Inferentia"
_MOST_SHOWN_BASES: Final = 4
"""Bases of a part that the page shows unfolded."""
_DOUBT_REMARK: Final = "in doubt"
_CLAIM_COLUMNS: Final = columns("id | verdict | claimed | ours | what is claimed", numbers_from=5)
_BASIS_COLUMNS: Final = (Column(""), Column("", is_number=True, is_right=True), Column(""))
_INDENT: Final = 5
_LEGEND: Final = (
    f"A figure within {TOLERANCE:.0%} of a claimed number, or inside a claimed range, agrees and "
    "is green. ~ stands in for what was claimed: it supports and does not refute. ? has an assumed "
    "input, or compares two kinds of purchase: it illustrates, and neither supports nor refutes. "
    "Documents: 000, 002 and 003 are one note in three languages; 001 is a guide of 2025-12-11."
)


def claims_document(claims: Sequence[Claim]) -> Document:
    """All claims: a table in the text; on the page also the bases of each."""
    summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts(claims).items())
    verdict_notes = [
        Note(f"{len(claims)} claims: {summary}."),
        Note(f"A figure agrees within {TOLERANCE:.0%} of a number, and inside a range.",
             place="text"),
        Note("~ stands in for what was claimed; ? has an assumed input, or two kinds of purchase.",
             place="text"),
        Note("trnsim claims C07 shows what one rests on.", place="text"),
        Note(_LEGEND, kind="soft", place="page"),
    ]  # fmt: skip
    sections = [
        Section(
            f"{len(claims)} claims of four documents", [_claim_table(claims)], heading_place="page"
        ),
        Section("Verdicts", verdict_notes, heading_place="page"),
        *(claim_section(claim, place="page") for claim in claims),
    ]
    return Document(_TITLE, [claim_values(claim) for claim in claims], sections, schema="claims/1")


def claim_document(claim: Claim) -> Document:
    """One claim, with all of its bases and sources."""
    return Document(_TITLE, claim_values(claim), [claim_section(claim)], schema="claims/1")


def claim_values(claim: Claim) -> dict[str, Any]:
    """A claim as JSON."""
    return picked(
        claim,
        "id documents quote says verdict",
        parts=[
            picked(
                part,
                "quantity claimed verdict",
                bases=[
                    _basis_values(basis) | {"matches": part.matches(basis)} for basis in part.bases
                ],
                not_known=part.missing,
            )
            for part in claim.parts
        ],
        besides=[_basis_values(basis) for basis in claim.besides],
        **picked(claim, "notes rows"),
    )


def _basis_values(basis: ClaimBasis) -> dict[str, Any]:
    return picked(basis, "basis=text value kind days sources rows is_stand_in doubts caveats")


def _claim_table(claims: Iterable[Claim]) -> Table:
    """A line for each claim, and for each part where it has several."""
    rows: list[Sequence[Cell]] = []
    for claim in claims:
        name = PageLink(claim.id, f"#{claim.id}")
        verdict = _verdict(claim.verdict)
        first_part, *further_parts = claim.parts
        if further_parts:
            rows.append((name, verdict, "", "", claim.says))
            rows += [
                ("", _verdict(part.verdict), part.claimed, recomputed_values(part), part.quantity)
                for part in claim.parts
            ]
        else:
            rows.append(
                (name, verdict, first_part.claimed, recomputed_values(first_part), claim.says)
            )
    return Table(_CLAIM_COLUMNS, rows)


def _verdict(verdict: ClaimVerdict) -> Mark:
    return Mark(verdict.value, f"strong {verdict.value.replace(' ', '-')}")


def recomputed_values(part: ClaimPart) -> str:
    """Our value of a part, or the least and the largest, as text; ~ and ? mark weak bases."""
    certain_bases = [basis for basis in part.bases if not basis.doubts] or list(part.bases)
    shown_bases = [basis for basis in certain_bases if not basis.is_stand_in] or certain_bases
    mark = _mark(shown_bases[0]) if shown_bases else ""
    texts = [basis.value for basis in shown_bases if isinstance(basis.value, str)]
    values = [basis.value for basis in shown_bases if not isinstance(basis.value, str)]
    if texts or not values:
        return mark + " or ".join(dict.fromkeys(texts)) if texts else "-"
    low, high = text(min(values)), text(max(values))
    return mark + (low if low == high else f"{low}..{high}")


def claim_section(claim: Claim, **place: Any) -> Section:
    """The claim: its parts with every basis, its conclusions, notes and sources."""
    blocks: list[Block] = [
        Note(f"{claim.id}  {claim.verdict.value.upper()}  {claim.says}", place="text"),
        Note((_verdict(claim.verdict), f": {claim.says}"), place="page"),
        Note(f'document {", ".join(claim.documents)}: "{claim.quote}"', _INDENT, 0, "quote"),
    ]
    for part in claim.parts:
        blocks += _part(part, claim)
    if claim.besides:
        rows = [_basis(basis, claim, is_hit=False) for basis in claim.besides]
        blocks += [
            Note("so:", _INDENT, kind="strong"),
            Table(_BASIS_COLUMNS, rows, _INDENT, "small"),
        ]
    doubts = dict.fromkeys(doubt for basis in figures_of(claim) for doubt in basis.doubts)
    blocks += [Note(f"note: {note}", _INDENT, 0, "soft") for note in (*claim.notes, *doubts)]
    if claim.sources:
        blocks.append(Items(claim.sources, _INDENT, is_numbered=True, kind="small soft"))
    return Section(claim.id, blocks, claim.id, heading_place="page", **place)


def _part(part: ClaimPart, claim: Claim) -> list[Block]:
    verdict = f" [{part.verdict.value}]" if len(claim.parts) > 1 else ""
    rows = [
        _basis(basis, claim, is_hit=part.matches(basis) and not basis.doubts)
        for basis in part.bases
    ]
    shown_rows, folded_rows = rows[:_MOST_SHOWN_BASES], rows[_MOST_SHOWN_BASES:]
    blocks: list[Block] = [
        Note(f"{part.quantity}: claimed {part.claimed}{verdict}", _INDENT, 0, "strong"),
        Table(_BASIS_COLUMNS, rows, _INDENT, place="text"),
        Table(_BASIS_COLUMNS, shown_rows, kind="small", place="page"),
    ]
    if folded_rows:
        folded_table = Table(_BASIS_COLUMNS, folded_rows, kind="small")
        blocks.append(FoldedBlocks(f"{len(folded_rows)} more", [folded_table], place="page"))
    return blocks + [Note(f"not known: {text}", 2 * _INDENT, 0, "soft") for text in part.missing]


def _basis(basis: ClaimBasis, claim: Claim, *, is_hit: bool) -> Sequence[Cell]:
    value = Mark(Figure(basis.value, text(basis.value)), "hit" if is_hit else "")
    parts = [kind_text(basis), *basis.days, *basis.caveats]
    sources = "".join(f"[{claim.sources.index(source) + 1}]" for source in basis.sources)
    provenance = f"{'; '.join(parts)} {sources}".strip()
    return (_mark(basis), value, (basis.text, Mark(provenance, is_below=True)))


def _mark(basis: ClaimBasis) -> str:
    """The mark of a basis that is in doubt, or stands in for another."""
    return "?" if basis.doubts else "~" if basis.is_stand_in else ""


def kind_text(basis: ClaimBasis) -> str:
    """The kind of a basis's evidence, and whether it is in doubt."""
    is_in_doubt = basis.doubts and basis.kind is not Grade.ASSUMED
    return f"{basis.kind.value}, {_DOUBT_REMARK}" if is_in_doubt else basis.kind.value
