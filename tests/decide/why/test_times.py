import math

import pytest
from answer_cases import compiled, estimate, infer, interval, serve, train

from trnsim.decide.why.times import REMAINDER, Values, times
from trnsim.errors import BadInput


def only(kind, plain):
    (found,) = times(kind, plain, "a.json")
    return found


def test_an_estimate_is_read_with_its_parts_and_what_it_rests_on():
    plain = infer(estimate=estimate({"products": 2.0, "host": 1.0}, conditions=["a"]))
    plain["estimate"]["extrapolations"] = ["batch 4096"]
    found = only("plan infer", plain)
    assert (found.name, found.p50_s, found.interval_s) == ("latency", 3.0, (1.5, 6.0))
    assert found.parts_s == {"products": 2.0, "host": 1.0}
    assert found.sources == {"model": "few constants"}
    assert found.conditions == ("a", "batch 4096")


def test_an_answer_without_an_estimate_has_no_time():
    assert times("plan infer", {"platform": "trn2"}, "a.json") == ()


def test_an_older_training_plan_has_its_step_and_parts():
    plain = train(parts_s={"compute": 8.0, "data": 1.5})
    del plain["estimate"]
    assert only("plan train", plain).parts_s == {"compute": 8.0, "data": 1.5, REMAINDER: 0.5}


def test_a_server_has_its_latencies_and_its_steps_of_which_the_last_is_the_principal():
    found = times("plan serve", serve(), "a.json")
    assert [one.name for one in found] == ["TTFT", "TPOT", "prefill step", "decode step"]
    ttft, tpot, _, decode = found
    assert ttft.parts_s == pytest.approx({"products": 0.03, "waiting": 0.02})
    assert tpot.parts_s == pytest.approx(
        {"weights": 6e-3, "prompts of others": 4e-3, "median less mean": 1e-3}
    )
    assert decode.sizes == {"batch": 8, "tokens": 1, "past": 2303}
    assert tpot.sources == decode.sources


def test_a_layer_has_the_interval_of_its_spread():
    answer = {"time_s": 2.0, "parts_s": {"weights": 2.0}, "spread": 0.5, "source": "measured"}
    found = only("plan layer", {"phase": "decode", "batch": 4, "answer": answer})
    assert found.interval_s == pytest.approx([2 * math.exp(x * 0.5) for x in (-1.28155, 1.28155)])
    assert (found.phase, found.sizes, found.sources) == (
        "decode",
        {"batch": 4},
        {"layer": "measured"},
    )


@pytest.mark.parametrize("spread", [-0.1, 100.1, 1e29])
def test_a_spread_without_finite_quantiles_is_refused(spread):
    answer = {"time_s": 2.0, "parts_s": {"weights": 2.0}, "spread": spread}
    with pytest.raises(BadInput, match=r"^a.json: answer: spread is .*; legal: 0 to 100"):
        only("plan layer", {"answer": answer})
    (found,) = times("plan layer", {"answer": answer | {"spread": 100}}, "a.json")
    assert math.isfinite(found.interval_s[1])


def test_a_collective_has_latencies_and_bytes():
    plain = {"time_s": interval(4.0), "latency_s": 1.0, "bytes_s": 2.5}
    assert only("plan collective", plain).parts_s == {
        "latencies": 1.0,
        "bytes": 2.5,
        "median of draws less these": 0.5,
    }


def test_a_compiled_pass_has_its_phase_and_sizes():
    found = only("compile", compiled())
    assert (found.phase, found.sizes) == ("encode", {"batch": 1, "tokens": 128, "past": 0})
    plain = compiled()
    del plain["phase"]
    assert only("compile", plain).phase == ""


def test_candidates_of_a_decision_have_times():
    plain = {"kind": "serve", "candidates": [{"instance": "p5", "ms": {"KV": 2.0}}, {"ms": None}]}
    found = only("assess", plain)
    assert (found.name, found.p50_s, found.interval_s) == ("token on p5", 2e-3, None)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("p50_s", 1e300, r"p50_s is 1e\+300; legal: a number, at most 1e\+30"),
        ("p50_s", "fast", r"a.json: estimate: p50_s is 'fast'; legal: a number, at most 1e"),
        ("p50_s", -1.0, "a.json: estimate: p50_s is -1.0; legal: from 0 on"),
        ("p50_s", 10**400, "estimate: p50_s is 1000"),
        ("p10_s", None, "estimate: p10_s is missing; legal: a number"),
        ("parts_s", [1], r"estimate: parts_s is \[1\]; legal: an object"),
        ("parts_s", {"host": True}, "parts_s: host is True; legal: a number"),
        ("conditions", "none", "conditions is 'none'; legal: a list of text"),
    ],
)
def test_what_no_command_wrote_is_refused_by_its_keys(key, value, said):
    with pytest.raises(BadInput, match=said) as caught:
        only("plan infer", infer(estimate=estimate({"host": 1.0}) | {key: value}))
    assert caught.value.fix == "give it as trnsim printed it"


def test_values_of_another_type_are_cut_short_in_a_message():
    with pytest.raises(BadInput, match=r"^a is 'x{38}…; legal: an object"):
        Values("x" * 1000, "a")
