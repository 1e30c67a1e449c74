"""One predictor answers for here and there, and asks equal questions once."""

from dataclasses import replace

from workload_cases import SMALL, shaped, workload

from trnsim.decide.times import Predictor
from trnsim.decide.times.speed import Speed

SHAPED = shaped("infer", sequence=128, batch=8)


def test_equal_questions_are_asked_once():
    asked = []
    predictor = Predictor(tell=asked.append)
    first = predictor.speed(SHAPED, "inf2.xlarge")
    again = predictor.speed(replace(SHAPED, name="another", volume=1.0), "inf2.xlarge")
    assert first is again
    assert asked == ["a workload: inf2.xlarge"]


def test_instances_of_one_hardware_are_one_question():
    asked = []
    predictor = Predictor(tell=asked.append)
    one = predictor.speed(SHAPED, "g5.xlarge").speed
    assert predictor.speed(SHAPED, "g5.2xlarge").speed is one
    assert predictor.speed(SHAPED, "g5.12xlarge").speed is not one
    assert len(asked) == 2


def test_another_shape_is_another_question():
    predictor = Predictor()
    other = shaped("infer", sequence=64, batch=8)
    one, two = (predictor.speed(given, "inf2.xlarge").speed for given in (SHAPED, other))
    assert one.units_per_s < two.units_per_s


def test_what_cannot_run_says_why():
    found = Predictor().speed(workload(), "g5.xlarge")
    assert found.speed is None
    assert "a GPU of g5.xlarge has" in found.refused


def test_a_brief_answer_is_another_question_only_for_a_promise_of_serving():
    told = []
    predictor = Predictor(tell=told.append)
    first = predictor.speed(SHAPED, "inf2.xlarge", is_brief=True)
    assert predictor.speed(SHAPED, "inf2.xlarge") is first
    assert len(told) == 1


def test_words_are_about_the_type_of_the_question():
    predictor, small = Predictor(), workload("train", SMALL)
    for name in ("g5.xlarge", "g5.2xlarge"):
        assert f"1 x {name}, " in predictor.speed(small, name).speed.layout
        assert predictor.speed(small, name, 2).refused.startswith(f"2 x {name} are needed")


def test_the_state_of_the_port_is_part_of_the_question(monkeypatch):
    monkeypatch.setattr(
        "trnsim.decide.times.serving.speed", lambda given, *_, **__: speed_of(given.port_state)
    )
    predictor = Predictor()
    for state in ("tuned", "as-ported"):
        served = replace(workload("serve"), port_state=state)
        assert predictor.speed(served, "trn2.48xlarge").speed.layout == state


def speed_of(layout):
    return Speed(1.0, 1, {}, "TPOT", is_validated=True, error={}, layout=layout)
