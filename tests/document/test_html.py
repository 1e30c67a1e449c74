"""Pages: text is text, a figure says its place, and every block has its markup."""

from trnsim.document.answer import (
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
    columns,
)
from trnsim.document.html import html, inline, words_html

HOSTILE = "<script>alert(1)</script>"


def body(*blocks, **changes):
    page = html(Document("title", None, [Section("", blocks, **changes)]))
    return page[page.index("</header>") + len("</header>\n") : page.index("</main>")].strip()


def panel(markup):
    return f'<section class="panel">{markup}</section>'


def test_title_and_headings():
    page = html(Document("a & b", None, [Section("c & d", (), "e")], subtitle="f & g"))
    assert "<title>a &amp; b</title>" in page
    assert '<h1>a &amp; b</h1><span class="soft">f &amp; g</span>' in page
    assert '<section class="panel" id="e"><h2>c &amp; d</h2></section>' in page
    assert "<script" not in page


def test_a_page_within_a_page_is_escaped_and_shares_nothing():
    shown = inline('a <b> "c"', '<html><script>f("x")</script></html>')
    assert shown.startswith("<p>a &lt;b&gt; &quot;c&quot;</p><iframe ")
    assert shown.count("<") == 4  # of p and iframe alone
    assert "f(&quot;x&quot;)" in shown
    assert 'sandbox="allow-scripts"' in shown


def test_words():
    assert (
        words_html(Figure(1.5, "1.5 ms", "/a/0"))
        == '<data value="1.5" data-of="/a/0">1.5 ms</data>'
    )
    assert words_html(Figure(1.5, "<1.5>")) == "&lt;1.5&gt;"
    assert (
        words_html(["a<", Mark("b<", "verdict go")]) == 'a&lt;<span class="verdict go">b&lt;</span>'
    )
    assert words_html(Mark("b", is_below=True)) == '<div class="soft">b</div>'
    assert words_html(PageLink("here<", "#x")) == '<a href="#x">here&lt;</a>'


def test_blocks():
    assert body(Note("a", kind="soft")) == panel('<p class="soft">a</p>')
    assert body(Items(["a", "b"])) == panel("<ul><li>a</li><li>b</li></ul>")
    assert body(Items(["a"], is_numbered=True)) == panel("<ol><li>a</li></ol>")
    assert body(MonospaceLines("a\n<b>")) == panel("<pre>a\n&lt;b&gt;</pre>")
    assert body(FoldedBlocks("more", [Note("a")])) == panel(
        "<details><summary>more</summary><p>a</p></details>"
    )


def test_drawings_that_follow_each_other_stand_side_by_side():
    drawn = body(Drawing("A"), Drawing("B"), Note("c"), Drawing("D", is_wide=True))
    assert drawn == panel('<div class="charts">AB</div>\n<p>c</p>D')


def test_a_table_has_names_figures_and_marked_rows():
    block = Table(
        (Column("chip"), Column("ms", is_number=True, help="a < b"), Column("x", place="text")),
        [["trn2<", Figure(1.5, "1.5"), "y"]],
        kind="small",
        marked={0: "best"},
    )
    assert body(block) == panel(
        '<div class="wide"><table class="small"><thead><tr><th class="text">chip</th>'
        '<th class="number" title="a &lt; b">ms</th></tr></thead><tbody><tr class="best">'
        '<td class="text" data-label="chip">trn2&lt;</td>'
        '<td class="number" data-label="ms">1.5</td></tr></tbody></table></div>'
    )


def test_an_empty_table_has_its_header_and_one_without_names_has_none():
    assert body(Table(columns("a"), [])).count("<tr>") == 1
    assert "<th" not in body(Table(columns(" | "), [["a", "b"]]))


def test_a_table_that_a_narrow_page_cannot_hold_has_a_class_of_its_width():
    wide = Table(columns(" | ".join("abcdefgh"), numbers_from=0), [["123,456.7 us"] * 8])
    assert '<table class="w860">' in body(wide)
    unnamed = Table(columns(" | ", numbers_from=0), [["123,456.7 us" * 9] * 2])
    assert "<table>" in body(unnamed)  # which has no names to put before its cells


def test_what_is_of_the_text_is_left_out():
    assert body(Note("a", place="text")) == ""  # and no panel of its own
    assert body(Note("a", place="text"), heading_place="text") == ""
    assert body(Note("a"), place="text") == ""


def test_columns_stand_side_by_side():
    assert body(Note("a"), is_column=True).startswith('<div class="columns"><section')


def test_text_is_text():
    blocks = [
        Note(HOSTILE),
        Items([HOSTILE]),
        Table(columns(HOSTILE), [[HOSTILE], [Figure(HOSTILE, HOSTILE, HOSTILE)], [Mark(HOSTILE)]]),
        FoldedBlocks(HOSTILE, [MonospaceLines(HOSTILE)]),
    ]
    page = html(Document(HOSTILE, None, [Section(HOSTILE, blocks, HOSTILE)], HOSTILE))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 18  # the header stands before each of its cells as well


def test_a_heading_alone_has_a_panel():
    assert '<section class="panel">' in html(Document("t", {}, [Section("headed", [])]))
