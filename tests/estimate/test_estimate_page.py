from html import unescape

from trnsim.estimate.estimate import Estimate


def test_a_notebook_shows_parts_errors_and_evidence_in_a_frame():
    estimate = Estimate(
        {"host": 0.001, "products": 0.003},
        {"rows": 0.0004},
        {"encode": "few <b>constants</b>"},
        conditions=("a launch of 13 us",),
        evidence=("validated by 24 rows",),
    )
    shown = estimate._repr_html_()
    assert shown.startswith("<p>4 ms (")
    assert shown.count("<iframe") == 1
    page = unescape(shown)
    rows = [page.index(text) for text in ("products", "3 ms", "host", "1 ms", "rows", "400 us")]
    assert rows == sorted(rows)
    for text in ("encode: few &lt;b&gt;constants", "a launch of 13 us", "validated by 24 rows"):
        assert text in page


def test_one_without_evidence_has_no_section_of_it():
    assert "What it rests on" not in Estimate({"a": 1.0}, {})._repr_html_()
