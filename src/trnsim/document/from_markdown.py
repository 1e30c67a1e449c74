"""The reader of the Markdown that instructions are documented in: blocks, for their page.

It reads what `isa.reference.page` writes: headings, fenced code, tables, lists and paragraphs. In
their text it reads code between backquotes, and links, of which only the words are kept.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from trnsim.document.answer import (
    Block,
    Column,
    Items,
    Mark,
    MonospaceLines,
    Note,
    Section,
    Table,
    Words,
)

_HEADING: Final = re.compile(r"^##? ")
_FENCE: Final = "```"
_ITEM: Final = re.compile(r"^(?:- |(\d+)\. )")
_INLINE: Final = re.compile(r"`([^`]+)`|\[([^\]]+)\]\([^)\s]+\)")


def sections(markdown: str) -> list[Section]:
    r"""A section for each heading of the first two levels, for the page alone.

    >>> [(section.heading, len(section.blocks)) for section in sections("a\n\n## c\n\n- d")]
    [('', 1), ('c', 1)]
    """
    titles_and_blocks: list[tuple[str, list[Block]]] = []
    for part in _parts(markdown):
        if _HEADING.match(part):
            level, _, title = part.partition(" ")
            titles_and_blocks.append(("" if level == "#" else title, []))
        else:
            if not titles_and_blocks:
                titles_and_blocks.append(("", []))
            titles_and_blocks[-1][1].extend(_blocks(part))
    return [Section(title, blocks, place="page") for title, blocks in titles_and_blocks]


def _parts(markdown: str) -> list[str]:
    """Text between blank lines; a fence holds its blank lines."""
    parts: list[str] = []
    for index, text in enumerate(re.split(rf"^{_FENCE}.*$", markdown, flags=re.MULTILINE)):
        if index % 2:
            parts.append(f"{_FENCE}{text.strip()}")
        else:
            parts += [part for part in re.split(r"\n\s*\n", text.strip("\n")) if part.strip()]
    return parts


def _blocks(part: str) -> list[Block]:
    if part.startswith(_FENCE):
        return [MonospaceLines(part.removeprefix(_FENCE))]
    lines = part.splitlines()
    if part.startswith("|"):
        return [_table(lines)]
    blocks: list[Block] = []
    for kind, group in groupby(_joined_lines(lines), _kind):
        texts = [_words(_ITEM.sub("", line)) for line in group]
        if kind:
            blocks.append(Items(texts, is_numbered=kind == "number"))
        else:
            blocks += [Note(text) for text in texts]
    return blocks


def _kind(line: str) -> str:
    match = _ITEM.match(line)
    return "" if match is None else "number" if match[1] else "item"


def _joined_lines(lines: list[str]) -> list[str]:
    """A line for each item of a list and each paragraph, their continuation lines joined to it."""
    items: list[str] = []
    for line in lines:
        if items and not _ITEM.match(line):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.strip())
    return items


def _table(lines: list[str]) -> Table:
    header, _, *rows = (
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    )
    cells = [[_words(cell.replace("\\|", "|")) for cell in row] for row in rows]
    return Table([Column(name) for name in header], cells)


def _words(text: str) -> Words:
    """Words with code set apart, and links as their words."""
    parts: list[Words] = []
    end = 0
    for match in _INLINE.finditer(text):
        parts.append(text[end : match.start()])
        parts.append(Mark(match[1], "mono") if match[1] else match[2])
        end = match.end()
    return [part for part in (*parts, text[end:]) if part]
