"""The part of plans: its questions, what a row has of an answer, and what a comparison finds."""

import json

import digest
import digest_figures
import digest_plans
import pytest
from digest_hook import Notes
from ledger import read

KEY = "plans | plan layer m.json --on trn1 | answer"


@pytest.fixture
def laid_out(tmp_path, monkeypatch):
    """The folder of configurations, in which questions are asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [])
    digest_plans.lay_out(tmp_path)
    return tmp_path


def test_every_question_is_asked_once_of_a_model_that_is_there(laid_out):
    asked = [*digest_plans.questions()]
    assert len(asked) == len(set(asked)) > 2000
    named = {word for one in asked for word in one.split() if "/" in word}
    assert [name for name in sorted(named) if not (laid_out / name).exists()] == []


def test_every_command_platform_and_kind_of_model_is_asked():
    asked = [*digest_plans.questions()]
    commands = {" ".join(one.split()[:2]) for one in asked if one.startswith("plan")}
    assert commands == {"plan infer", "plan layer", "plan serve", "plan train"}
    for on in digest_plans.PLATFORMS:
        for command in commands:
            assert any(one.startswith(command) and f"--on {on} " in f"{one} " for one in asked)
    for name in ("DeepSeek-V3", "Mixtral", "quantized/awq", "clip", "t5", "vit", "Mistral-7B-v0.1"):
        assert any(name in one for one in asked)
    for option in ("--tp", "--pp", "--cp", "--ep", "--no-sp", "--recompute", "--batch 32"):
        assert any(f"{option} " in one for one in asked)


@pytest.mark.usefixtures("laid_out")
def test_an_answer_has_figures_and_words_by_their_places():
    question = "plan layer examples/llama-3.1-8b.json --on trn1 --phase prefill"
    row = digest_plans.row(*digest_plans.answer(question))
    assert row["figures"]["answer.time_s"] == pytest.approx(
        sum(time_s for name, time_s in row["figures"].items() if "parts_s." in name), rel=0.2
    )
    assert row["figures"]["tokens"] == 2048
    assert row["words"]["phase"] == "prefill"
    assert "error" not in row


@pytest.mark.usefixtures("laid_out")
def test_a_refusal_is_a_row_with_its_message():
    row = digest_plans.row(*digest_plans.answer("plan infer examples/none.json --on trn1"))
    assert [*row] == ["error"]
    assert "examples/none.json" in row["error"]


def test_a_fault_of_the_house_is_a_row_too(monkeypatch):
    def fault(*_, **__):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("runpy.run_module", fault)
    found = digest_plans.answer("plan infer m.json")
    assert digest_plans.row(*found) == {"error": "ZeroDivisionError: division by zero"}


def test_parts_of_a_list_are_placed_by_their_names():
    found = {"a": [{"name": "inf2", "usd": 1.5}, {"b": [True, None, "text"]}], "none": None}
    assert dict(digest_plans.leaves(found)) == {
        "a[inf2].name": "inf2",
        "a[inf2].usd": 1.5,
        "a[1].b[0]": True,
        "a[1].b[2]": "text",
    }


def test_an_answer_of_one_platform_is_that_platforms_and_a_price_has_no_age():
    price = "21.50 USD/h on_demand us-east-1 2026-07-20"
    found = digest_plans.row([{"n": 1, "price": f"{price} (warning: 129 days old)"}], "")
    assert found == {"figures": {"n": 1}, "words": {"price": price}}


def test_the_part_writes_a_row_for_each_question(tmp_path, monkeypatch):
    questions = ["plan layer examples/llama-3.1-8b.json --on trn2", "instances --for none.json"]
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr(digest_plans, "questions", lambda: iter(questions))
    digest_plans.run(Notes(tmp_path / "rows.jsonl", "plans"))
    rows = digest.keyed(read(tmp_path / "rows.jsonl"))
    assert [*rows] == [f"plans | {question} | answer" for question in questions]
    assert [[*row] for row in rows.values()] == [["figures", "words"], ["error"]]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("estimate.parts_s.products", "parts of seconds"),
        ("step_s.p10", "seconds, P10"),
        ("estimate.p90_s", "seconds, P90"),
        ("estimate.p50_s", "seconds"),
        ("answer.time_s", "seconds"),
        ("items_per_s.p50", "rates"),
        ("tokens_per_s_per_chip.p90", "rates, P90"),
        ("usd_per_million_items.p50", "dollars"),
        ("memory_bytes[0]", "bytes"),
        ("memory_bytes.sequence", "bytes"),
        ("needed_bytes_per_rank", "bytes"),
        ("flop", "FLOP"),
        ("mfu", "rates"),
        ("layout.tensor", "counts and shares"),
    ],
)
def test_a_figure_is_of_a_kind(place, kind):
    assert digest_figures.kind_of(place) == kind


def rows(figures, key=KEY, source="few constants of decode"):
    return {key: {"figures": figures, "words": {"answer.source": source}}}


def shares(one, other):
    unequal, _ = digest_figures.differences(rows(one), rows(other))
    return {found.place: found.share for found in unequal}


def test_a_figure_differs_in_terms_of_the_larger():
    assert shares({"a_s": 2.0, "b": 1}, {"a_s": 1.0, "b": 1}) == {"a_s": 0.5}
    assert shares({"a_s": 0.0}, {"a_s": 1.0}) == {"a_s": 1.0}
    assert shares({"a": -1.0}, {"a": 1.0}) == {"a": 2.0}


def test_a_part_differs_in_terms_of_its_sum():
    one = {"e.parts_s.products": 9.0, "e.parts_s.bubble": 0.0, "other_s": 0.1}
    other = {"e.parts_s.products": 9.9, "e.parts_s.bubble": 0.1, "other_s": 0.1}
    found = shares(one, other)
    assert found == {
        "e.parts_s.products": pytest.approx(0.09),
        "e.parts_s.bubble": pytest.approx(0.01),
    }


def test_what_is_no_number_on_one_side_differs_without_bound():
    nan, infinity = float("nan"), float("inf")
    assert shares({"a": nan}, {"a": nan}) == {"a": 0.0}
    assert shares({"a": infinity}, {"a": infinity}) == {}
    assert shares({"a": infinity}, {"a": 1.0}) == {"a": infinity}


def test_the_basis_is_what_the_answer_says():
    def basis(**words):
        return digest_figures.basis_of({"words": words})

    assert basis(times="few constants of decode") == "few constants"
    assert basis(**{"sources.decode": "programs"}) == "others"
    assert basis(phase="decode") == "no source"
    assert digest_figures.basis_of({"error": "no"}) == "no source"


@pytest.fixture
def compared(capsys):
    """Whether digests with these rows differ, and what is printed of it."""

    def compare(one, other):
        head = {"clones": {}, "parts": ["plans"], "failed": {}, "commit": "c"}
        differs = digest.compare(*({**head, "rows": each} for each in (one, other)))
        return differs, capsys.readouterr().out

    return compare


def test_figures_that_differ_by_less_than_a_share_are_told_and_are_no_difference(compared):
    differs, text = compared(rows({"a_s": 1.0, "b": 2}), rows({"a_s": 1.001, "b": 2}))
    assert not differs
    assert "figures: 2 of 1 rows, 1 not equal" in text
    assert "seconds (few constants): 1 not equal, largest 0.10%: plan layer m.json" in text
    assert "differ by more than 1%: 0" in text


def test_figures_beyond_it_are_all_listed_in_groups(compared):
    many = [f"plans | plan train m{number}.json | answer" for number in range(30)]
    one = {key: row for name in many for key, row in rows({"parts[a].time_s": 2.0}, name).items()}
    other = {key: row for name in many for key, row in rows({"parts[a].time_s": 1.0}, name).items()}
    differs, text = compared(one, other)
    assert differs
    group = "plan train, parts[].time_s (few constants): 30, 50.00% in the median, 50.00% at most"
    assert group in text
    assert text.count("    50.00%: plan train m") == 30


def test_figures_that_one_has_alone_are_a_difference(compared):
    differs, text = compared(rows({"a_s": 1.0, "b": 2}), rows({"a_s": 1.0}))
    assert differs
    assert f"figures that one digest has alone: 1\n  {KEY}: b" in text


def test_a_question_that_is_refused_now_is_a_refusal_alone(compared):
    differs, text = compared(rows({"a_s": 1.0}), {KEY: {"error": "no room"}})
    assert differs
    assert "refusal: 1 rows differ: 1 of plans" in text
    assert "differ by more than 1%: 0" in text


def test_words_that_differ_are_shown_by_the_first_place(compared):
    differs, text = compared(rows({"a": 1}), rows({"a": 1}, source="few constants of programs"))
    assert differs
    assert "words: 1 rows differ: 1 of plans" in text
    assert "words: answer.source: few constants of decode -> few constants of programs" in text


@pytest.mark.usefixtures("laid_out")
def test_rows_of_plans_survive_json():
    row = digest_plans.row(*digest_plans.answer("plan infer examples/bert-large.json --on inf2"))
    assert digest_figures.differences({"k": row}, json.loads(json.dumps({"k": row}))) == ([], [])
