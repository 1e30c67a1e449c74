"""Blocks of Markdown: every word of an instruction's page stays, no sign of Markdown does."""

import re

import pytest

from trnsim.document.answer import Document, Items, MonospaceLines, Note, Table
from trnsim.document.from_markdown import sections
from trnsim.document.html import html
from trnsim.document.text import words_text
from trnsim.isa import Instruction
from trnsim.isa.reference.page import page

TEXT = """# op

Adds `a | b`, see [the page](../how.md).

```python
op(
    a,

    b)
```

## Rules

- one, which
  goes on
- two `<x>`
1. first

| a   | b    |
| --- | ---- |
| `x` | 1 \\| 2 |
"""


def test_each_form_is_a_block():
    first, rules = sections(TEXT)
    assert (first.heading, rules.heading) == ("", "Rules")
    note, code = first.blocks
    assert isinstance(note, Note)
    assert words_text(note.words) == "Adds a | b, see the page."
    assert code == MonospaceLines("op(\n    a,\n\n    b)")
    items, numbered, table = rules.blocks
    assert isinstance(items, Items)
    assert [words_text(item) for item in items.items] == ["one, which goes on", "two <x>"]
    assert numbered == Items([["first"]], is_numbered=True)
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == ["a", "b"]
    assert [[words_text(cell) for cell in row] for row in table.rows] == [["x", "1 | 2"]]
    assert '<span class="mono">&lt;x&gt;</span>' in html(Document("op", None, [first, rules]))


def test_nothing_has_no_section():
    assert sections("") == []
    assert [section.heading for section in sections("words alone")] == [""]


@pytest.mark.parametrize("opcode", ["nc_matmul", "activation", "dma_copy", "all_reduce"])
def test_a_page_of_an_instruction_keeps_its_words(opcode):
    markdown = page(Instruction.registry[opcode])
    shown = html(Document(opcode, None, sections(markdown)))
    body = re.sub(r"<[^>]*>", " ", shown[shown.index("<header>") :])
    assert not re.search(r"^#|```|\| ---|\]\(", body, flags=re.MULTILINE)
    for word in re.findall(r"[A-Za-z]{4,}", re.sub(r"```python|\([^)\s]*\.md\)", "", markdown)):
        assert word in body
