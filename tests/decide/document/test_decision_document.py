"""A decision's page: every dollar again from its own inputs; Chromium draws it; text is text."""

import json
import re
from dataclasses import replace

import pytest
from decision_cases import decision
from page_cases import dollars, is_input, repeated
from shown_pages import CHROMIUM, Shown, at, is_rounded, looked_at

from trnsim.decide.document.decision_document import decision_document
from trnsim.decide.document.figures import figures
from trnsim.document.html import html

HOSTILE = "<script>alert(1)</script>"


def decision_page(found):
    return html(decision_document(found))


@pytest.fixture(scope="module")
def shown(assessed):
    return Shown(decision_page(assessed))


@pytest.fixture(scope="module")
def values(assessed):
    return json.loads(json.dumps(figures(assessed)))


def test_every_dollar_of_the_page_is_found_again_from_its_inputs(shown, values):
    known = dollars(values)
    assert len(shown.usd) > 60
    for place, value, text in shown.usd:
        assert value == at(values, place), place
        assert is_rounded(text, value) or value == 0 == float(text), place
        if is_input(place):
            assert value > 0
        else:
            assert value == pytest.approx(known[place], rel=1e-9, abs=1e-9), place


def test_every_dollar_of_a_chart_is_found_again_from_its_inputs(shown, values):
    known = dollars(values)
    of = [(place, value) for place, value in shown.drawn if "usd" in place]
    assert len(of) > 20
    for place, value in of:
        assert value == pytest.approx(known[place], rel=1e-9), place


def test_dollars_in_sentences_are_bills_savings_or_sums_of_a_rule(shown, values):
    """Reasons and evidence are sentences: each "1,234 USD" of them is one of these."""
    known = [10_000.0, 100_000.0]
    for one in values["workloads"]:
        bill, today = one["today"]["usd_per_month"], one["today"]
        if today["price"] is not None and today["paid_hours"] is not None:
            known.append(today["paid_hours"] * today["price"]["usd_per_hour"])
        known += [bill, one["migration"]["usd"], one["migration"]["usd_per_week"]]
        for each in one["candidates"]:
            known.append(each["break_even_usd_per_hour"] or 0.0)
            if each["saving"]:
                known += [bill * each["saving"]["p50"] * 12, each["usd_per_month"]["p50"]]
    sentences, _ = shown.text.split("Sources of prices")  # behind it, titles of documents
    said = re.findall(r"(-?[\d,]+(?:\.\d+)?) USD", sentences)
    assert said
    for text in said:
        number = float(text.replace(",", ""))
        assert any(abs(number - one) <= max(0.5, 0.006 * abs(one)) for one in known), text


def test_the_page_needs_no_script_and_no_network(assessed):
    page = decision_page(assessed)
    assert "<script" not in page
    assert not re.search(r'@import|url\(|<link|(?:src|href)="(?!#)', page)


def test_all_workloads_verdicts_assumptions_and_sources_are_there(shown, assessed):
    for one in assessed.workloads:
        assert one.name in shown.text
        assert one.reason in shown.text
        for rule in one.rules:
            assert rule.evidence in shown.text
        for each in one.candidates:
            assert each.instance in shown.text
            assert each.price is None or each.price.source in shown.text
    for one in assessed.assumptions:
        assert one.source in shown.text
        assert one.name in shown.text


def hostile():
    """A decision whose texts are all markup."""
    found = decision()
    one = found.workloads[0]
    price = replace(one.candidates[0].price, source=HOSTILE, region=HOSTILE, day=HOSTILE)
    first = replace(
        one.candidates[0],
        instance=HOSTILE,
        price=price,
        layout=HOSTILE,
        notes=(HOSTILE,),
        family=HOSTILE,
        ms={HOSTILE: 4.0},
        usd={HOSTILE: 3.0},
    )
    second = replace(one.candidates[1], instance=HOSTILE, refused=HOSTILE)
    changed = replace(
        one,
        name=HOSTILE,
        model=HOSTILE,
        volume_unit=HOSTILE,
        reason=HOSTILE,
        best=HOSTILE,
        today=replace(one.today, instance=HOSTILE, kind=HOSTILE, refused=HOSTILE),
        rules=tuple(replace(rule, name=HOSTILE, evidence=HOSTILE) for rule in one.rules),
        candidates=(first, second),
        tornado=tuple(replace(swing, input=HOSTILE) for swing in one.tornado),
        findings=tuple(replace(f, path=HOSTILE, text=HOSTILE) for f in one.findings),
        assumptions=(HOSTILE,),
    )
    said = tuple(replace(each, name=HOSTILE, source=HOSTILE) for each in found.assumptions)
    return replace(
        found, workloads=(changed,), inventory=HOSTILE, assumptions=said, caveats=(HOSTILE,)
    )


def test_text_is_text():
    page = decision_page(hostile())
    assert "<script" not in page
    shown = Shown(page)
    assert shown.scripts == 0
    assert shown.text.count(HOSTILE) >= 20


@pytest.mark.parametrize("count", [0, 1, 12])
def test_any_number_of_workloads_has_a_page(assessed, count):
    found = repeated(assessed, count)
    shown = Shown(decision_page(found))
    assert ("The inventory has no workloads." in shown.text) == (count == 0)
    assert sum(place.endswith("/today/usd_per_month") for place, *_ in shown.usd) == 2 * count


@pytest.mark.parametrize("without", ["candidates", "prices"])
def test_a_workload_without_candidates_or_prices_has_a_page(without):
    found = decision()
    one = found.workloads[0]
    changes = {"candidates": (), "best": None, "tornado": ()}
    if without == "prices":
        bare = {"price": None, "usd_per_month": None, "saving": None, "pays_back_months": None}
        each = replace(one.candidates[0], no_price="no public price", usd={}, **bare)
        today = replace(one.today, price=None)
        changes = {"candidates": (each,), "today": today, "tornado": ()}
    shown = Shown(decision_page(replace(found, workloads=(replace(one, **changes),))))
    text = "No instance can run it." if without == "candidates" else "no public price"
    assert text in shown.text
    assert "No candidate has a price of the same kind." in shown.text


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
@pytest.mark.parametrize("size", ["1280,900", "500,900"])
def test_a_browser_draws_its_charts_as_figures_json_says(assessed, values, tmp_path, size):
    seen = looked_at(decision_page(assessed), tmp_path, size)
    assert seen["errors"] == []
    assert seen["asked"] == []
    assert seen["empty"] == 0
    assert seen["wide"] is False
    assert seen["charts"] >= 4 * len(assessed.workloads)
    widest = {}
    for bar in seen["bars"]:
        assert float(bar["value"]) == at(values, bar["of"])
        pair = widest.setdefault(bar["chart"], (bar["width"], at(values, bar["of"])))
        widest[bar["chart"]] = max(pair, (bar["width"], at(values, bar["of"])))
    assert len(widest) >= len(assessed.workloads)
    for bar in seen["bars"]:  # one scale for all bars of a chart
        width, value = widest[bar["chart"]]
        assert bar["width"] / width == pytest.approx(at(values, bar["of"]) / value, abs=2e-3)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_runs_nothing_of_what_the_user_wrote(tmp_path):
    seen = looked_at(decision_page(hostile()), tmp_path)
    assert seen["errors"] == []
    assert seen["bars"]
