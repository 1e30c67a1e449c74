"""Claims as text: a table with a line each, and one claim with all that it rests on."""

from __future__ import annotations

from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from trnsim.cli.hardware_text import WIDTH
from trnsim.formatting import clipped
from trnsim.system.claims.amounts import Kind
from trnsim.system.claims.verdict import figures_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.system.claims import Basis, Claim, Part

_VERDICT: Final = 16
_CLAIMED: Final = 18
_OURS: Final = 11
_DOUBTED: Final = "in doubt"
_wrap: Final = partial(wrap, width=WIDTH, break_on_hyphens=False, break_long_words=False)


def table_of(claims: Sequence[Claim]) -> list[str]:
    """A line for each claim, and for each part where it has several, in `WIDTH` columns."""
    lines = [_line("id", "verdict", "claimed", "ours", "what is claimed")]
    for claim in claims:
        first, *more = claim.parts
        if more:
            lines.append(
                clipped(f"{claim.id:<4} {claim.verdict.value:<{_VERDICT}} {claim.says}", WIDTH)
            )
            lines += [_of_part("", part.verdict.value, part, part.quantity) for part in claim.parts]
        else:
            lines.append(_of_part(claim.id, claim.verdict.value, first, claim.says))
    return lines


def _of_part(id_: str, verdict: str, part: Part, says: str) -> str:
    return _line(id_, verdict, part.claimed, ours(part), says)


def _line(id_: str, verdict: str, claimed: str, own: str, says: str) -> str:
    line = (
        f"{id_:<4} {verdict:<{_VERDICT}} {clipped(claimed, _CLAIMED):<{_CLAIMED}} "
        f"{clipped(own, _OURS):<{_OURS}} {says}"
    )
    return clipped(line, WIDTH).rstrip()


def ours(part: Part) -> str:
    """Our values of a part: one, or the least and the largest of its direct ones."""
    known = [one for one in part.bases if not one.doubts] or list(part.bases)
    judged = [one for one in known if not one.is_stand_in] or known
    mark = "~" if judged and judged[0].is_stand_in else "?" if judged and judged[0].doubts else ""
    texts = [one.value for one in judged if isinstance(one.value, str)]
    values = [one.value for one in judged if not isinstance(one.value, str)]
    if texts or not values:
        return mark + " or ".join(dict.fromkeys(texts)) if texts else "-"
    low, high = text(min(values)), text(max(values))
    return mark + (low if low == high else f"{low}..{high}")


def lines_of(claim: Claim) -> list[str]:
    """The claim, then its parts with every basis, then what follows and what must be known."""
    heading = f"{claim.id}  {claim.verdict.value.upper()}  {claim.says}"
    lines = _wrap(heading, subsequent_indent=" " * 5)
    told = f'document {", ".join(claim.documents)}: "{claim.quote}"'
    lines += _indented(told, 5)
    for part in claim.parts:
        lines += _of(part, claim)
    for basis in claim.besides:
        lines += _indented(f"so: {text(basis.value)} {basis.text}", 5)
        lines += _indented(_told(basis, claim), 9)
    notes = (*claim.notes, *assumed_of(claim))
    lines += [line for note in notes for line in _indented(f"note: {note}", 5)]
    for number, source in enumerate(claim.sources, 1):
        lines += _wrap(f"[{number}] {source}", initial_indent="     ", subsequent_indent=" " * 9)
    return lines


def numbers_of(basis: Basis, claim: Claim) -> str:
    """Sources of a basis, as numbers in the list of its claim's."""
    return "".join(f"[{claim.sources.index(source) + 1}]" for source in basis.sources)


def assumed_of(claim: Claim) -> tuple[str, ...]:
    """What is doubtful about figures of a claim, each doubt once."""
    doubts = (doubt for basis in figures_of(claim) for doubt in basis.doubts)
    return tuple(dict.fromkeys(doubts))


def kind_of(basis: Basis) -> str:
    """What a basis rests on, and whether it is in doubt."""
    is_known = basis.doubts and basis.kind is not Kind.ASSUMED
    return f"{basis.kind.value}, {_DOUBTED}" if is_known else basis.kind.value


def _of(part: Part, claim: Claim) -> Iterator[str]:
    has_verdict = len(claim.parts) > 1
    verdict = f" [{part.verdict.value}]" if has_verdict else ""
    yield f"     {part.quantity}: claimed {part.claimed}{verdict}"
    for basis in part.bases:
        mark = "?" if basis.doubts else "~" if basis.is_stand_in else " "
        first, *rest = _indented(basis.text, 18)
        yield f"     {mark}{text(basis.value):>10}  {first.strip()}"
        yield from rest
        yield from _indented(_told(basis, claim), 18)
    for missing in part.missing:
        yield from _indented(f"not known: {missing}", 18)


def _told(basis: Basis, claim: Claim) -> str:
    """Kind, days and sources of a basis, and what must be said beside it."""
    parts = [kind_of(basis), *basis.days, *basis.caveats]
    return f"{'; '.join(parts)} {numbers_of(basis, claim)}".strip()


def _indented(words: str, columns: int) -> list[str]:
    indent = " " * columns
    return _wrap(words, initial_indent=indent, subsequent_indent=indent)
