import re
from dataclasses import replace

from decision_cases import decision
from page_cases import COMPANIES  # noqa: F401  the folder is on the path
from shown_pages import Shown, at

from trnsim.decide.document.figures import figures
from trnsim.decide.document.workload_charts import compared_candidates, workload_charts
from trnsim.document.figure import Figures


def drawn(found, number=0):
    made = workload_charts(found.workloads[number], Figures(figures(found)), number, 12.0)
    return "".join(one.markup for one in made)


def test_every_shape_has_the_number_of_its_place(assessed):
    values = figures(assessed)
    for number in range(len(assessed.workloads)):
        shown = Shown(drawn(assessed, number)).drawn
        assert shown
        for place, value in shown:
            assert at(_listed(values), place) == value, place


def _listed(values):
    import json  # noqa: PLC0415

    return json.loads(json.dumps(values))


def test_here_there_and_the_cheapest_are_compared_once_each(assessed):
    train = assessed.workloads[0]
    names = [one.instance for one in compared_candidates(train)]
    assert names[:2] == [train.today.instance, train.best]
    assert len(set(names)) == len(names) <= 4


def test_a_point_is_drawn_for_each_candidate_with_a_price(assessed):
    for number, one in enumerate(assessed.workloads):
        priced = [each for each in one.candidates if each.usd_per_month is not None]
        assert drawn(assessed, number).count("<circle") == len(priced)


def test_what_misses_its_promise_is_no_part_of_the_front():
    found = decision()
    one = found.workloads[0]
    missed = replace(one.candidates[0], slo="missed")
    made = drawn(replace(found, workloads=(replace(one, candidates=(missed,)),)))
    assert 'class="dot out"' in made
    assert '<polyline class="front" points=""/>' in made


def test_each_empty_chart_says_why():
    found = decision()
    one = replace(found.workloads[0], candidates=(), tornado=())
    made = drawn(replace(found, workloads=(one,)))
    assert "<svg" not in made
    assert made.count("<figure>") == len(re.findall(r'<p class="soft">[^<]+\.</p>', made)) == 5


def test_months_without_an_end_are_said_to_be_never():
    found = decision()
    one = found.workloads[0]
    months = replace(one.candidates[0].pays_back_months, p50=None)
    never = replace(one.candidates[0], pays_back_months=months)
    assert "never at P50" in drawn(replace(found, workloads=(replace(one, candidates=(never,)),)))
