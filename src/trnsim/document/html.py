"""The writer of pages: a document as one HTML file, which needs no network and no script.

Sections are panels, tables scroll by themselves where they are wider than the page, drawings stand
side by side, and a figure that knows its place in the document's JSON says it:

    <data value="160000.0" data-of="/workloads/0/today/usd_per_month">160,000</data>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from urllib.parse import quote

from trnsim.document.answer import (
    Block,
    Column,
    Document,
    Drawing,
    Figure,
    FoldedBlocks,
    Items,
    Mark,
    MonospaceLines,
    Note,
    PageLink,
    Section,
    Table,
    Words,
)
from trnsim.document.builder import page, panel
from trnsim.document.drawing import charts
from trnsim.document.narrow import width_class


def html(document: Document) -> str:
    """The page of a document."""
    subtitle = f'<span class="soft">{escape(document.subtitle)}</span>' if document.subtitle else ""
    sections = [section for section in document.sections if section.place != "text"]
    body = [f"<header><h1>{escape(document.title)}</h1>{subtitle}</header>\n"]
    for is_column, group in groupby(sections, lambda section: section.is_column):
        panels = "".join(map(_section, group))
        body.append(f'<div class="columns">{panels}</div>\n' if is_column else panels)
    return page(document.title, "".join(body))


def inline(line: str, content: str) -> str:
    """A page embedded in another page, such as a notebook, with a line above it.

    Its styles and scripts are its own: the frame shares none with the page around it, and its
    scripts reach nothing there.
    """
    frame = f'<iframe srcdoc="{escape(content)}" sandbox="allow-scripts" title="{escape(line)}"'
    return f'<p>{escape(line)}</p>{frame} style="width:100%;height:640px;border:0"></iframe>'


def words_html(words: Words) -> str:
    """Words as markup."""
    if isinstance(words, str):
        return escape(words)
    if isinstance(words, Figure):
        if not words.of or words.value is None:
            return escape(words.words)
        place = f'value="{escape(repr(words.value))}" data-of="{escape(words.of)}"'
        return f"<data {place}>{escape(words.words)}</data>"
    if isinstance(words, Mark):
        tag = "div" if words.is_below else "span"
        return f'<{tag} class="{words.kind}">{words_html(words.words)}</{tag}>'
    if isinstance(words, PageLink):
        place = words.target if words.target.startswith("#") else quote(words.target)
        return f'<a href="{escape(place)}">{escape(words.words)}</a>'
    return "".join(map(words_html, words))


def _section(section: Section) -> str:
    heading = "" if section.heading_place == "text" else section.heading
    blocks = _blocks(section.blocks)
    return panel(heading, blocks, section.anchor) if heading or blocks else ""


def _blocks(blocks: Sequence[Block]) -> str:
    """Blocks below each other; drawings that follow each other stand side by side."""
    page_blocks = (block for block in blocks if block.place != "text")
    markup: list[str] = []
    for is_chart, group in groupby(page_blocks, _is_chart):
        parts = [_block(block) for block in group]
        markup.append(charts(*parts) if is_chart else "".join(parts))
    return "".join(markup)


def _is_chart(block: Block) -> bool:
    return isinstance(block, Drawing) and not block.is_wide


def _block(block: Block) -> str:
    match block:
        case Note():
            return f"<p{_class(block.kind)}>{words_html(block.words)}</p>"
        case Items():
            tag = "ol" if block.is_numbered else "ul"
            lines = "".join(f"<li>{words_html(item)}</li>" for item in block.items)
            return f"<{tag}{_class(block.kind)}>{lines}</{tag}>"
        case Table():
            return _table(block)
        case Drawing():
            return block.markup
        case MonospaceLines():
            return f"<pre>{escape(block.lines)}</pre>"
        case FoldedBlocks():
            content = _blocks(block.blocks)
            return f"<details><summary>{escape(block.summary)}</summary>{content}</details>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _table(block: Table) -> str:
    indices = [index for index, column in enumerate(block.columns) if column.place != "text"]
    columns = [block.columns[index] for index in indices]
    cells = [[words_html(row[index]) for index in indices] for row in block.rows]
    has_head = any(column.name for column in columns)
    heads = [escape(column.name) for column in columns]
    labels = heads if has_head else ()
    lines = [
        f"<tr{_class(block.marked.get(number, ''))}>{_cells('td', columns, row, labels)}</tr>"
        for number, row in enumerate(cells)
    ]
    head = f"<thead><tr>{_cells('th', columns, heads)}</tr></thead>" if has_head else ""
    width = width_class(heads, [column.is_number for column in columns], cells) if has_head else ""
    classes = " ".join(filter(None, (block.kind, width)))
    table = f"<table{_class(classes)}>{head}<tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _cells(
    tag: str, columns: Sequence[Column], cells: Iterable[str], labels: Sequence[str] = ()
) -> str:
    """The cells of a row; on a narrow page `labels` stand before them."""
    return "".join(
        f'<{tag} class="{"number" if column.is_number else "text"}"'
        f"{_title(column) if tag == 'th' else ''}"
        f"{f' data-label={chr(34)}{label}{chr(34)}' if label else ''}>{cell}</{tag}>"
        for column, cell, label in zip(columns, cells, labels or [""] * len(columns), strict=True)
    )


def _title(column: Column) -> str:
    return f' title="{escape(column.help)}"' if column.help else ""
