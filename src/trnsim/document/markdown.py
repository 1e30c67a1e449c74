"""The writer of Markdown: a document as a comment of a pull request, in GitHub's and GitLab's kind.

Source of tables and of details: GitHub Flavored Markdown, section 4.10; HTML's ``<details>`` in a
comment. Text that others wrote gives no HTML, link or heading (`foreign_text.markdown_text`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trnsim.document.answer import (
    Block,
    Cell,
    Document,
    FoldedBlocks,
    Items,
    MonospaceLines,
    Note,
    Table,
    Words,
)
from trnsim.document.text import words_text
from trnsim.foreign_text import markdown_text


def markdown(document: Document) -> str:
    """The title as a heading, and the sections of the page below it, with a line end."""
    parts = [f"### {markdown_text(document.title)}"]
    for section in document.sections:
        if section.place == "text":
            continue
        if section.heading and section.heading_place != "text":
            parts.append(f"#### {markdown_text(section.heading)}")
        parts += _parts(section.blocks)
    return "\n\n".join(parts) + "\n"


def _parts(blocks: Sequence[Block]) -> list[str]:
    page_blocks = [block for block in blocks if block.place != "text"]
    return [part for block in page_blocks if (part := _part(block))]


def _part(block: Block) -> str:
    match block:
        case Note():
            words = _words(block.words)
            return f"**{words}**" if block.kind == "strong" and words else words
        case Items():
            marks = range(1, len(block.items) + 1)
            return "\n".join(
                f"{f'{mark}.' if block.is_numbered else '-'} {_words(item)}"
                for mark, item in zip(marks, block.items, strict=True)
            )
        case Table():
            return _table(block)
        case FoldedBlocks():
            details = "\n\n".join(_parts(block.blocks))
            summary = markdown_text(block.summary)
            return f"<details><summary>{summary}</summary>\n\n{details}\n\n</details>"
        case MonospaceLines():
            return _fenced(block.lines)
        case _:
            return ""


def _words(words: Words) -> str:
    return markdown_text(words_text(words))


def _table(table: Table) -> str:
    indices = [index for index, column in enumerate(table.columns) if column.place != "text"]
    header = [table.columns[index].name for index in indices]
    rule = ["--:" if table.columns[index].is_number else "---" for index in indices]
    rows = [[_cell(row[index]) for index in indices] for row in table.rows]
    lines = [[markdown_text(name) for name in header], rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: Cell) -> str:
    return "<br>".join(markdown_text(line) for line in words_text(cell).split("\n") if line)


def _fenced(lines: str) -> str:
    """Lines between fences that are longer than any run of backquotes in them."""
    longest = max(map(len, re.findall("`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{lines.rstrip()}\n{fence}"
