import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.decide.difference import AnswerChange, difference, name_of


def interval(median):
    return {"p10": median * 0.5, "p50": median, "p90": median * 2}


def train(**changed):
    answer = {
        "platform": "trn2",
        "instances": 4,
        "layout": {"tensor": 8, "is_sequence": True},
        "step_s": interval(10.0),
        "time_s": interval(1000.0),
        "usd": interval(40.0),
        "parts_s": {"compute": 9.0, "data": 1.0},
        "pareto": [{"instances": 1}],
        "assumed": ["training efficiency = 0.69: carried over", "failures"],
        "price": "36.00 USD/h",
    }
    return answer | changed


def only(old, new):
    return difference("trn2", old, new)


def test_equal_answers_have_no_difference():
    assert only(train(), copy.deepcopy(train())).is_equal


def test_a_figure_with_doubt_is_compared_by_its_median():
    wider = train(step_s={"p10": 1.0, "p50": 10.0, "p90": 100.0})
    assert only(train(), wider).is_equal
    for median, is_within in ((20.0, True), (20.1, False), (5.0, True), (4.9, False)):
        (change,) = only(train(), train(step_s=interval(median))).figures
        assert (change.path, change.old, change.new) == ("step_s", 10.0, median)
        assert change.within is is_within
        assert change.ratio == median / 10


@pytest.mark.parametrize(
    ("old", "within"),
    [((0.5, 2.0, None), True), ((3.5, 4.0, None), False), ((None, None, None), None)],
)
def test_months_without_an_end_are_compared(old, within):
    before, after = (
        train(pays_back_months=dict(zip(("p10", "p50", "p90"), each, strict=True)))
        for each in (old, (1.0, 3.0, None))
    )
    (change,) = only(before, after).figures
    assert (change.old, change.new, change.within) == (old[1], 3.0, within)


def test_what_is_no_floating_point_number_is_a_cause():
    other = train(layout={"tensor": 4, "is_sequence": False}, price="40.00 USD/h")
    found = only(train(), other)
    assert not found.figures
    assert [(one.path, one.old, one.new) for one in found.causes] == [
        ("layout.tensor", 8, 4),
        ("layout.is_sequence", True, False),
        ("price", "36.00 USD/h", "40.00 USD/h"),
    ]


def test_constants_are_compared_by_name_in_any_order():
    moved = train(assumed=["failures", "training efficiency = 0.71: fitted"])
    (change,) = only(train(), moved).causes
    assert change.path == "assumed.training efficiency"
    assert (change.old, change.new) == ("0.69: carried over", "0.71: fitted")
    gone = only(train(), train(assumed=["failures"])).causes
    assert [(one.path, one.new) for one in gone] == [("assumed.training efficiency", None)]


def test_fields_that_are_put_aside_are_left_out():
    other = train(pareto=[], searched={"layouts": 3})
    assert difference("trn2", train(), other, ("pareto", "searched")).is_equal


def test_a_price_that_comes_or_goes_is_a_figure_without_ratio():
    (change,) = only(train(usd=None), train()).figures
    assert (change.path, change.old, change.new, change.ratio) == ("usd", None, 40.0, None)
    assert only(train(usd=None), train()).cost == {}


@given(
    price=st.floats(0.1, 10), instances=st.integers(1, 1000), time=st.floats(0.01, 100),
)  # fmt: skip
def test_the_factors_of_the_cost_are_those_it_was_made_of(price, instances, time):
    """An oracle: the cost is made from the factors that are to be found."""
    usd = 40.0 * price * (instances / 4) * time
    new = train(usd=interval(usd), time_s=interval(1000.0 * time), instances=instances)
    found = difference("trn2", train(), new)
    assert found.cost["price"] == pytest.approx(price)
    assert found.cost["instances"] == instances / 4
    assert found.cost["time"] == pytest.approx(time)


def test_instances_that_wait_are_paid_for():
    new = train(usd=interval(50.0), instances=4, spares=1)
    found = difference("trn2", train(instances=4), new)
    assert found.cost == pytest.approx({"price": 1.0, "instances": 1.25, "time": 1.0})


def test_the_cost_of_a_server_depends_on_its_rate():
    def serve(usd, rate):
        figures = {"usd_per_million_tokens": interval(usd), "output_tokens_per_s": interval(rate)}
        return {"platform": "trn2", "ttft_p50_s": interval(1.0), "instances": 1} | figures

    found = difference("trn2", serve(1.0, 100.0), serve(3.0, 50.0))
    assert found.cost == {"price": 1.5, "instances": 1.0, "time": 2.0}


def test_a_part_is_named_by_its_platform_name_or_chip():
    named = ({"platform": "trn2"}, {"name": "chat"}, {"target": "trn1"}, {"name": 3}, {}, 3)
    assert list(map(name_of, named)) == ["trn2", "chat", "trn1", None, None, None]


@pytest.mark.parametrize(("old", "new"), [(10**400, 1.0), (1.0, 10**400), (1e-300, 1e300)])
def test_numbers_beyond_floating_point_have_no_ratio(old, new):
    assert AnswerChange("", old, new).ratio is None


def test_an_interval_of_text_says_nothing_of_doubt():
    odd = train(step_s={"p10": 1.0, "p50": 10.0, "p90": "late"})
    (change,) = only(odd, train(step_s=interval(11.0))).figures
    assert change.within is None
