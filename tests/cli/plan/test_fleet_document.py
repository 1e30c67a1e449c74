"""A fleet: every dollar again from its own inputs; Chromium draws it; text is text."""

import csv
import io
import json
import re
from statistics import quantiles

import pytest
from fleet_cases import made_of
from shown_pages import CHROMIUM, Shown, at, is_rounded, looked_at

from trnsim.cli.plan.fleet_document import fleet_document
from trnsim.document.html import html
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text as text_of


def fleet_page(made):
    return html(fleet_document(made))


def table_of(made):
    return list(csv.reader(io.StringIO(spreadsheet(fleet_document(made)))))


HOSTILE = "<script>alert(1)</script>"
INPUTS = ("/usd_per_chip_hour", "/usd_per_kwh")


@pytest.fixture(scope="module")
def made():
    return made_of()


def dollars(made):
    """Every dollar that is not an input, by its place, from inputs, misses and tokens."""
    days, found = made["days"], {}
    chips = made["chips"] * 24 * made["usd_per_chip_hour"]
    missed = {one["name"]: one["usd_per_missed_request"] for one in made["services"]}
    worth = {one["name"]: one["usd_per_million_tokens"] / 1e6 for one in made["jobs"]}
    for name, one in made["policies"].items():
        energy = (one["energy_kwh_per_day"] or 0.0) * made["usd_per_kwh"]
        drawn = one["draws"]
        by_draw = [
            chips
            + energy
            + sum(usd * drawn["requests_missed"][each][n] for each, usd in missed.items()) / days
            - sum(usd * drawn["tokens"][each][n] for each, usd in worth.items()) / days
            for n in range(made["draws"])
        ]
        tenths = quantiles(by_draw, n=10, method="inclusive")
        for quantile, tenth in (("p10", 0), ("p50", 4), ("p90", 8)):
            found[f"/policies/{name}/usd_per_day/{quantile}"] = tenths[tenth]
        known = one["expected"]
        parts = {
            "chips": chips,
            "energy": energy,
            "missed": sum(missed[each] * n for each, n in known["requests_missed"].items()) / days,
            "worth": sum(worth[each] * n for each, n in known["tokens"].items()) / days,
        }
        parts["sum"] = parts["chips"] + parts["energy"] + parts["missed"] - parts["worth"]
        found |= {f"/policies/{name}/expected/usd_per_day/{key}": n for key, n in parts.items()}
    return found


def test_every_dollar_of_the_page_is_found_again_from_its_inputs(made):
    known, shown = dollars(made), Shown(fleet_page(made))
    assert len(shown.usd) == 2 * 3 + 2 * 5 + 2 + 1 + 2
    for place, value, text in shown.usd:
        assert value == at(made, place)
        assert is_rounded(text, value) or value == 0 == float(text)
        if not place.startswith(("/services/", "/jobs/", *INPUTS)):
            assert value == pytest.approx(known[place], rel=1e-6), place
    of = [(place, value) for place, value in shown.drawn if "usd" in place]
    assert len(of) == 2 * 4
    for place, value in of:
        assert value == pytest.approx(known[place], rel=1e-6)
    assert not re.findall(r"\d[\d.,]* USD(?! a day)", shown.text)


def test_the_page_needs_no_script_and_no_network(made):
    page = fleet_page(made)
    assert "<script" not in page
    assert not re.search(r"@import|url\(|<link|src=", page)


def test_policies_misses_jobs_splits_and_sources_are_there(made):
    text = Shown(fleet_page(made)).text
    words = ("separate", "threshold", "chat", "research", "tuning", "perfect sharing", "goodput")
    for each in (*words, "requests missed a day", "given", "planned for P90"):
        assert each in text


def test_further_days_are_behind_a_click():
    page = fleet_page(made_of(3))
    assert page.count("<details>") == 1
    assert "threshold: the next 2 days" in page
    assert "Tuesday, 03 March" in page


def test_a_fleet_without_services_or_jobs_has_a_page(made):
    empty = {"requests_missed": {}, "tokens": {}, "chips": {}}
    bare = made | {"services": [], "jobs": [], "demand": {}}
    bare["policies"] = {
        name: one
        | empty
        | {"draws": {"requests_missed": {}, "tokens": {}}, "energy_kwh_per_day": None}
        for name, one in made["policies"].items()
    }
    text = Shown(fleet_page(bare)).text
    assert "There are no services." in text
    assert "There are no jobs." in text
    assert len(table_of(bare)) == 1


def renamed(made):
    """The fleet with names that are markup."""
    text = json.dumps(made)
    for name in ("chat", "research", "tuning"):
        text = text.replace(f'"{name}"', json.dumps(HOSTILE + name))
    return json.loads(text) | {"name": HOSTILE, "price": HOSTILE}


def test_text_is_text(made):
    page = fleet_page(renamed(made))
    assert "<script" not in page
    shown = Shown(page)
    assert shown.scripts == 0
    assert shown.text.count(HOSTILE) > 20
    for place, value in shown.drawn:
        assert at(renamed(made), place) == value


def test_the_table_has_a_row_for_each_hour_and_name(made):
    header, *rows = table_of(made)
    assert len(rows) == 2 * 24 * 3
    assert all(len(row) == len(header) for row in rows)
    cells = dict(zip(header, rows[12], strict=True))
    assert (cells["policy"], cells["name"], cells["is"]) == ("separate", "chat", "service")
    assert cells["hour"] == made["hours"][12]
    assert float(cells["requests_per_s_p50"]) == made["demand"]["chat"]["p50"][12]
    assert cells["tokens_p50"] == ""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_draws_the_day_as_figures_json_says(made, tmp_path):
    seen = looked_at(fleet_page(made), tmp_path)
    assert seen["errors"] == seen["asked"] == []
    assert seen["empty"] == 0
    assert seen["wide"] is False
    assert seen["charts"] == 2 + 2 + 2
    chips = [bar for bar in seen["bars"] if "/chips/" in bar["of"]]
    assert len(chips) == 2 * 3 * 24
    tallest = max(chips, key=lambda bar: bar["height"])
    for bar in chips:
        value = at(made, bar["of"])
        assert float(bar["value"]) == value
        part = value / at(made, tallest["of"])
        assert bar["height"] / tallest["height"] == pytest.approx(part, abs=2e-3)


def test_the_text_has_the_figures_of_the_json(made):
    printed = text_of(fleet_document(made))
    one = made["policies"]["threshold"]
    assert f"{100 * one['utilisation']['p50']:.0f} (" in printed
    assert f"{made['chips']:,} chips in 2 buildings, 256 of them spare" in printed
    assert f"{one['energy_kwh_per_day'] / 1e3:.1f}" in printed
    assert "of perfect sharing" in printed
    assert "research: 256, 512, ... or 2304 chips, given; 6 min to change" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_all_chips_of_an_hour_are_shown(made):
    printed = text_of(fleet_document(made))
    row = next(line for line in printed.splitlines() if line.startswith("Mon 12:00"))
    shown = [int(cell.replace(",", "")) for cell in row.split()[2:]]
    assert sum(shown) == made["usable_chips"]


def test_without_watts_there_is_no_energy(made):
    policies = {"separate": made["policies"]["threshold"] | {"energy_kwh_per_day": None}}
    assert "MWh" not in text_of(fleet_document(made | {"policies": policies}))
    assert "MWh/day" in text_of(fleet_document(made))


def test_a_plan_that_is_not_the_solvers_own_says_so(made):
    policies = {"solver": made["policies"]["threshold"] | {"own_plan": False}}
    said = "The solver found nothing better than the threshold policy's plan."
    assert said in text_of(fleet_document(made | {"policies": policies}))
