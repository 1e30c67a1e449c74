from trnsim.document.answer import (
    Column,
    Document,
    Figure,
    FoldedBlocks,
    Items,
    Mark,
    MonospaceLines,
    Note,
    Section,
    Table,
)
from trnsim.document.markdown import markdown


def written(*blocks, heading="", **places):
    return markdown(Document("T", {}, [Section(heading, blocks, **places)]))


def test_a_document_is_a_heading_and_its_blocks():
    table = Table([Column("name"), Column("USD", is_number=True)], [("a", Figure(2.0, "2.00"))])
    text = written(Note("a b", kind="strong"), Items(["x", "y"]), table, heading="H")
    assert text == (
        "### T\n\n#### H\n\n**a b**\n\n- x\n- y\n\n| name | USD |\n| --- | --: |\n| a | 2.00 |\n"
    )


def test_a_numbered_list_counts():
    assert written(Items(["x", "y"], is_numbered=True)).endswith("1. x\n2. y\n")


def test_foreign_text_gives_no_markup():
    table = Table([Column("<b>")], [("|[x](y)",)])
    text = written(Note("<script> `a` [l](u)"), table)
    assert "\\<script\\>" in text
    assert "\\`a\\` \\[l\\](u)" in text
    assert "| \\|\\[x\\](y) |" in text
    assert "| \\<b\\> |" in text


def test_a_cell_has_its_further_lines():
    table = Table([Column("a")], [(("x", Mark("below", is_below=True)),)])
    assert written(table).endswith("| x<br>below |\n")


def test_folded_blocks_are_details():
    text = written(FoldedBlocks("more", [Note("inside")]))
    assert text.endswith("<details><summary>more</summary>\n\ninside\n\n</details>\n")


def test_fences_are_longer_than_those_inside():
    assert written(MonospaceLines("a\n````\nb\n")).endswith("`````\na\n````\nb\n`````\n")
    assert written(MonospaceLines("a")).endswith("```\na\n```\n")


def test_what_is_of_the_text_alone_is_left_out():
    text = written(Note("page", place="page"), Note("text", place="text"), heading="H")
    assert "page" in text
    assert "text" not in text
    assert "#### H" not in written(heading="H", heading_place="text")
    assert written(Note("n"), place="text") == "### T\n"
    table = Table([Column("a"), Column("b", place="text")], [("1", "2")])
    assert written(table).endswith("| a |\n| --- |\n| 1 |\n")
