"""Claims as one HTML file: a row for each, with its verdict and every basis that it rests on."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trnsim.cli.claim_text import assumed_of, kind_of, numbers_of
from trnsim.document.builder import page, panel, table
from trnsim.system.claims import counts
from trnsim.system.claims.verdict import TOLERANCE, Verdict, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.system.claims import Basis, Claim, Part

_TITLE: Final = "What is claimed of Trainium and Inferentia"
_SHOWN: Final = 4
"""Bases of a part in sight; the others open."""
_STYLE: Final = """
/* Claims: a row each; the bases of a claim are lines of a table inside its row. */
table.claims > tbody > tr > td { padding: 8px 12px 8px 0 }
table.claims td.claim { width: 24% } table.claims td.verdict { width: 9%; font-weight: 600 }
table.bases td { border: 0; padding: 1px 10px 1px 0; font-size: 12.5px; overflow-wrap: anywhere }
table.bases { table-layout: fixed } table.bases td.number { width: 86px }
table.bases td.kind { width: 15% } table.bases td.day { width: 24% }
table.bases td.source { width: 9% } ol.sources { margin: 4px 0 0; padding-left: 22px }
ol.sources { color: var(--soft); font-size: 11.5px; overflow-wrap: anywhere }
table.bases td.source { color: var(--soft); font-size: 11.5px }
td.claim .soft { font-size: 12.5px } .verdicts table { width: auto }
.quote { color: var(--soft); font-style: italic; font-size: 12.5px }
.part { font-weight: 600; font-size: 12.5px; margin-top: 2px }
.hit { color: var(--gain) } .doubt { color: var(--soft) }
tr.wrong td.verdict { color: var(--critical) } tr.reproduced td.verdict { color: var(--gain) }
details summary { cursor: pointer; font-size: 12px; color: var(--accent) }
"""


def claim_page(claims: Sequence[Claim]) -> str:
    """The page of `claims`."""
    rows = "".join(map(_row, claims))
    head = "".join(f"<th>{name}</th>" for name in ("claim", "verdict", "what it rests on"))
    body = [
        f"<header><h1>{_TITLE}</h1></header>\n",
        panel("Verdicts", f'<div class="verdicts">{_counted(claims)}</div>{_legend()}'),
        panel(
            f"{len(claims)} claims of four documents",
            f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>',
        ),
    ]
    return page(_TITLE, "".join(body), _STYLE)


def _counted(claims: Sequence[Claim]) -> str:
    rows = [(verdict.value, str(count)) for verdict, count in counts(claims).items()]
    return table(("verdict", "claims"), rows)


def _legend() -> str:
    return (
        '<p class="soft">A figure within '
        f"{TOLERANCE:.0%} of a claimed number, or inside a claimed range, agrees and is green. "
        "~ stands in for what was claimed: it supports and does not refute. ? has an assumed "
        "input, or compares two kinds of purchase: it illustrates, and neither supports nor "
        "refutes. Documents: 000, 002 and 003 are one note in three languages; 001 is a guide of "
        "2025-12-11.</p>"
    )


def _row(claim: Claim) -> str:
    kind = "wrong" if claim.verdict is Verdict.WRONG else claim.verdict.value.replace(" ", "-")
    notes = "".join(
        f'<div class="soft">{escape(note)}</div>' for note in (*claim.notes, *assumed_of(claim))
    )
    parts = "".join(_part(part, claim) for part in claim.parts)
    besides = ""
    if claim.besides:
        besides = f'<div class="part">So:</div>{_bases(claim.besides, claim)}'
    sources = "".join(f"<li>{escape(source)}</li>" for source in claim.sources)
    listed = f'<ol class="sources">{sources}</ol>' if sources else ""
    return (
        f'<tr class="{kind}" id="{claim.id}"><td class="claim"><b>{claim.id}</b> '
        f'{escape(claim.says)}<div class="quote">{", ".join(claim.documents)}: '
        f"&#8220;{escape(claim.quote)}&#8221;</div>{notes}</td>"
        f'<td class="verdict">{claim.verdict.value}</td>'
        f"<td>{parts}{besides}{listed}</td></tr>\n"
    )


def _part(part: Part, claim: Claim) -> str:
    heading = f"{part.quantity}: claimed {part.claimed} [{part.verdict.value}]"
    missing = "".join(f'<div class="soft">not known: {escape(one)}</div>' for one in part.missing)
    more = part.bases[_SHOWN:]
    rest = f"<details><summary>{len(more)} more</summary>{_bases(more, claim, part)}</details>"
    return (
        f'<div class="part">{escape(heading)}</div>{_bases(part.bases[:_SHOWN], claim, part)}'
        f"{rest if more else ''}{missing}"
    )


def _bases(bases: Sequence[Basis], claim: Claim, part: Part | None = None) -> str:
    lines = "".join(_basis(one, claim, part) for one in bases)
    return f'<table class="bases">{lines}</table>'


def _basis(basis: Basis, claim: Claim, part: Part | None) -> str:
    mark = "?" if basis.doubts else "~" if basis.is_stand_in else ""
    is_hit = part is not None and part.matches(basis) and not basis.doubts
    shown = f'<span class="{"hit" if is_hit else ""}">{mark}{escape(text(basis.value))}</span>'
    said = "; ".join((basis.text, *basis.caveats))
    cells = (
        ("basis", said),
        ("kind", kind_of(basis)),
        ("day", ", ".join(basis.days)),
        ("source", numbers_of(basis, claim)),
    )
    others = "".join(f'<td class="{name}">{escape(words)}</td>' for name, words in cells)
    return f'<tr><td class="number">{shown}</td>{others}</tr>'
