import pytest

from trnsim.cli.why_document import why_document
from trnsim.decide.difference import AnswerChange
from trnsim.decide.why.explain import AnswerComparison, AnswerDifference, TimeDifference, TimeTerm
from trnsim.decide.why.times import Time
from trnsim.document.text import text as text_of
from trnsim.document.values import plain as plain_of


def text(found, names):
    return text_of(why_document(found, names))


def plain(found):
    return plain_of(why_document(found, ("a", "b")).values)


def time(p50_s=1e-3, **given):
    return Time("step", "train", p50_s, **given)


def explained(*terms, old=None, new=None, **given):
    old, new = old or time(), new or time(2e-3)
    return TimeDifference(old, new, tuple(terms), given.get("sources", ()), ((), ("a condition",)))


def of(*times, kinds=("plan train", "plan train"), **given):
    found = {"inputs": (), "figures": (), "cost": {}, **given}
    return AnswerComparison(kinds, (AnswerDifference("trn2", times, **found),), (), ("trn1",))


GROWN = TimeTerm("compute", 1e-3, 2e-3, 1e-3)


def test_a_table_has_terms_their_sum_and_both_intervals():
    new = time(2e-3, interval_s=(1e-3, 4e-3))
    found = text(of(explained(GROWN, TimeTerm("host", None, 5e-6, 5e-6), new=new)), ("a", "b"))
    assert found.startswith(
        "A  a\nB  b\n\n"
        "trn2: step\n"
        "A 1 ms, B 2 ms (1 ms to 4 ms); B is 2 times A\n"
        "A's median lies within B's P10 to P90\n"
        "host: only in B\n"
        "term      A ms   B ms  change\n"
        "compute  1.000  2.000  +1.000\n"
        "host         -  0.005  +0.005\n"
        "sum      1.000  2.000  +1.000\n"
        "\n"
        "conditions:\n"
        "  only in B: a condition\n"
        "inputs: none differs, so trnsim itself does"
    )
    assert found.endswith("\n\nonly B answers for: trn1")


def test_the_largest_time_sets_the_digits_and_the_smaller_keeps_three():
    terms = TimeTerm("a", 1.5e-4, 2.5, 2.5 - 1.5e-4)
    found = text(of(explained(terms, old=time(1.5e-4), new=time(2.5))), ("a", "b"))
    assert "\na     0.150  2,500.000  +2,499.850\n" in found


def test_a_log_has_no_parts():
    new = time(3e-3, is_measured=True)
    terms = TimeTerm("unexplained", None, 2e-3, 2e-3), TimeTerm("compute", 1e-3, None, 0.0)
    found = text(of(explained(*terms, new=new), kinds=("plan train", "log (csv)")), ("a", "b"))
    assert "\nunexplained      -  2.000  +2.000\ncompute      1.000      -       -\n" in found
    assert "B 3 ms measured" in found
    assert "only in B: compute" not in found
    assert "inputs" not in found


def test_a_time_with_the_terms_of_another_has_a_line():
    one = explained(GROWN)
    other = TimeDifference(
        Time("step", "", 1e-3), Time("pass", "", 2e-3), one.terms, (), one.conditions
    )
    assert "\n\ntrn2: step of A, pass of B: as step\n" in text(of(one, other), ("a", "b"))


def test_equal_answers_are_said_to_be():
    same = TimeDifference(time(), time(), (TimeTerm("compute", 1e-3, 1e-3, 0.0),), (), ((), ()))
    assert "\n\ntrn2: nothing changed\n" in text(of(same), ("a", "b"))
    other = of(same, kinds=("compile", "plan train"))
    assert "\n\ntrn2: equal in both: step 1 ms\n" in text(other, ("a", "b"))


def test_sources_inputs_figures_and_cost_follow():
    found = text(
        of(
            explained(GROWN, sources=(AnswerChange("train", "few constants", None),)),
            inputs=(AnswerChange("batch", 1, 8),),
            figures=(
                AnswerChange("mfu", 0.4, 0.2, within=False),
                AnswerChange("usd", 1.0, 1.0001),
                AnswerChange("saving", None, 0.5),
            ),
            cost={"price": 2.0, "time": 0.5},
        ),
        ("a", "b"),
    )
    assert "sources:\n  train, A: few constants\n  train, B: -\n" in found
    assert "inputs:\n  batch: 1 -> 8\n" in found
    assert "mfu     0.4  0.2  -50.0%  outside\n" in found
    assert "1 figure changes by less than 0.05%" in found
    assert "saving  -    0.5  -" in found
    assert "\n\ncost: price +100.0%, time -50.0%\n" in found


def test_an_answer_without_times_begins_with_its_name():
    found = text(of(inputs=(AnswerChange("verdict", "pilot", "go"),)), ("a", "b"))
    assert "trn2:\ninputs:\n  verdict: pilot -> go" in found


def test_the_json_has_the_same_numbers():
    found = plain(of(explained(GROWN), inputs=(AnswerChange("batch", 1, 8),)))
    (why,) = found["whys"]
    (one,) = why["times"]
    assert one["terms"] == [{"name": "compute", "a_s": 1e-3, "b_s": 2e-3, "change_s": 1e-3}]
    assert (one["a"]["p50_s"], one["b"]["p50_s"], one["ratio"]) == (1e-3, 2e-3, 2.0)
    assert why["inputs"] == [{"path": "batch", "a": 1, "b": 8, "ratio": 8.0}]
    assert (found["only_a"], found["only_b"]) == ([], ["trn1"])


@pytest.mark.parametrize("p50_s", [0.0, 1e-12])
def test_a_time_of_nothing_is_shown(p50_s):
    found = text(of(explained(old=time(p50_s), new=time(p50_s))), ("a", "b"))
    assert "sum" in found
