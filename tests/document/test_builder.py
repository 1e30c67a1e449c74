import json
from html.parser import HTMLParser

import pytest

from trnsim.document.builder import as_json, filled_template, page, panel

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 {{data}} &amp; <b>"


class Texts(HTMLParser):
    """The tags that are open when text comes, and the text; tags must close in order."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(markup)
        assert not self.open

    def handle_starttag(self, tag, attrs):  # noqa: ARG002  the parser's signature
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.seen.append((self.open[-1] if self.open else "", data))


def test_a_page_is_one_document_with_its_title_style_and_body():
    made = page(HOSTILE, "<p>body {{style}}</p>", "p { color: red }")
    assert made.startswith("<!doctype html>")
    seen = Texts(made).seen
    assert ("title", HOSTILE) in seen
    assert ("p", "body {{style}}") in seen
    (style,) = [text for tag, text in seen if tag == "style"]
    assert style.endswith("p { color: red }")
    assert "--ink" in style


def test_a_heading_is_text_and_a_panel_may_have_none():
    seen = Texts(panel(HOSTILE, "<p>a</p>", HOSTILE)).seen
    assert [one for one in seen if one[1].strip()] == [("h2", HOSTILE), ("p", "a")]
    assert panel("", "<p>a</p>") == '<section class="panel"><p>a</p></section>\n'


def test_what_is_put_in_is_not_searched_for_markers():
    assert filled_template("{{a}} {{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}} {{a}}"
    with pytest.raises(KeyError):
        filled_template("{{unknown}}", {})


def test_json_cannot_leave_a_script_element():
    assert json.loads(as_json([HOSTILE])) == [HOSTILE]
    assert not {"<", ">", "&", "\u2028"} & set(as_json([HOSTILE]))
