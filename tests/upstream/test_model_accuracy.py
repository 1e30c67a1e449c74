"""What the tables of whole models rest on: rows, buckets, the one constant, programs."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "accuracy" / "models"))
import graphs
import model_estimate
import model_fit
import model_rows
import programs
from model_estimate import Estimate
from model_rows import CLASSES, DECODE, PREFILL, SEVERAL, TOKENS, TRAINING, Case, Part

from trnsim.fabric.collective_time import collective_time
from trnsim.fabric.constants import start_s
from trnsim.graph import Graph

CASES = {case.row["id"]: case for case in model_rows.cases()}


def test_every_row_has_a_class_and_graphs_or_a_reason():
    assert len(CASES) == len(model_rows.rows()) == 52 + 182 + 14
    for case in CASES.values():
        assert case.kind in (*CLASSES, TOKENS, SEVERAL)
        assert bool(case.parts) != bool(case.left_out)
        assert case.published_s > 0
        assert all(part.spec["name"] in graphs.FACTS for part in case.parts)


def test_every_architecture_names_its_source_and_is_used():
    used = {part.spec["name"] for case in CASES.values() for part in case.parts}
    assert set(graphs.FACTS) == used
    assert all(facts["source"] for facts in graphs.FACTS.values())


def test_five_rows_of_training_are_of_one_instance():
    kinds = Counter(case.kind for case in CASES.values())
    assert (kinds[TRAINING], kinds[SEVERAL]) == (5, 9)


@pytest.mark.parametrize(
    ("throughput", "seconds"),
    [(None, 0.008), (4000.0, 0.004), (2000.0, 0.008), (1900.0, 0.008), (1e4, 0.0016)],
)
def test_a_pass_is_no_longer_than_its_core_gives_one(throughput, seconds):
    row = {"value": 8.0, "hardware": "Inf2.xlarge"}
    given = row if throughput is None else row | {"throughput": throughput}
    assert model_rows.pass_s(given, 8) == pytest.approx(seconds)


def test_rows_of_throughput_have_one_request_or_two_at_each_core():
    found = [row for row in model_rows.rows() if "throughput" in row]
    assert len(found) == 10
    for row in found:
        batch = int(row["shapes"]["Batch Size"])
        waiting = row["throughput"] * row["value"] / 1e3 / batch / 2
        if row["id"] != "dnn-inf2-vision_transformers-thr-5":  # its latency fits no throughput
            assert min(abs(waiting - 1), abs(waiting - 2)) < 0.11


@pytest.mark.parametrize(
    ("tokens", "most", "length"),
    [
        *((1, 8192, 128), (128, 8192, 128), (129, 8192, 256), (2048, 8192, 2048)),
        *((4097, 8192, 8192), (640, 1152, 1024), (1025, 1152, 1152), (192, 256, 256)),
    ],
)
def test_a_bucket_is_the_next_power_of_two_or_the_longest(tokens, most, length):
    assert model_rows.bucket(tokens, most) == length


def test_a_decode_row_is_a_step_at_the_bucket_of_the_median_token():
    case = CASES["llm-trn1-lat-4-tpot"]  # 128 tokens in, 1,024 out, 1,152 in all
    (part,) = case.parts
    assert (case.kind, part.times, part.spec["past"]) == (DECODE, 1, 1023)
    assert (part.spec["ranks"], part.spec["batch"]) == (32, 1)
    assert case.published_s == pytest.approx(24.48e-3)


def test_a_prefill_row_is_one_prompt():
    case = CASES["llm-trn1-thr-3-ttft"]
    (part,) = case.parts
    assert (case.kind, part.spec["sequence"], part.spec["batch"]) == (PREFILL, 2048, 4)
    assert "weights" not in part.spec
    assert CASES["llm-trn1-lat-1-tpot"].parts[0].spec["weights"] == "int8"


def test_a_row_of_tokens_per_second_is_the_time_of_all_its_tokens():
    case = CASES["llm-trn1-lat-4-output"]
    assert [part.times for part in case.parts] == [1, 1023]
    assert case.published_s == pytest.approx(1024 / 40.63808)


def test_a_training_row_is_a_step_of_the_optimizer():
    case = CASES["train-encoder-2"]  # 16,384 sequences, 16 a core and microbatch, 32 cores
    assert (case.parts[0].times, case.replicas) == (32, 32)
    assert case.published_s == pytest.approx(16384 / 3826.6103)
    piped = CASES["train-trn1_trn1n_nlp_data-7"]  # 8 ranks, 8 stages, 16 replicas
    assert (piped.parts[0].times, piped.parts[0].spec["layers"]) == (64 + 8 - 1, 7)


def exchanging(number, seconds, published_s, model="a model"):
    """A decode row with exchanges of no bytes."""
    row = {"id": f"{model}-{number}", "kernel_or_model": model, "what": model}
    part = Part(1, {"name": model})
    case = Case(row, DECODE, "trn1", published_s, (part,), ranks=32)
    found = Estimate(seconds, 0.0, 0.0, seconds / 2, 0.0, 0, [("all_reduce", 0, 8)] * number)
    return model_fit.Row(case, [found])


def of_a_latency(latency_s, models):
    """Rows whose exchanges take that long."""
    return [
        exchanging(n, 1e-3, 1e-3 + n * latency_s, f"model {model}")
        for model in range(models)
        for n in (10, 60, 160)
    ]


@pytest.mark.slow
def test_the_constant_is_found_again():
    assert model_fit.latency(of_a_latency(42e-6, 2)) == pytest.approx(42e-6)


def test_without_decode_rows_there_is_no_constant():
    assert model_fit.latency([]) is None


@pytest.mark.slow
def test_a_row_has_the_constant_of_the_other_models():
    rows = [*of_a_latency(42e-6, 2), exchanging(60, 1e-3, 1.0, "an odd one")]
    results = model_fit.leave_one_out(rows)
    assert results[-1].latency_s == pytest.approx(42e-6)
    assert results[-1].estimate_s == pytest.approx(1e-3 + 60 * 42e-6)
    assert results[-1].share == pytest.approx(60 * 42e-6 / (1e-3 + 60 * 42e-6))
    assert not results[-1].is_inside


def test_the_interval_holds_four_fifths_of_the_others():
    rng = np.random.default_rng(0)
    rows = [
        exchanging(0, 1e-3, 1e-3 * float(np.exp(x)), f"m {n}")
        for n, x in enumerate(rng.normal(size=200))
    ]
    inside = [result.is_inside for result in model_fit.leave_one_out(rows)]
    assert np.mean(inside) == pytest.approx(0.8, abs=0.02)


def test_a_bound_is_the_longest_side_of_each_part():
    row = exchanging(4, 1e-3, 2e-3)
    assert row.bound == (0.5e-3, "HBM")


def test_bytes_over_links_are_those_of_the_ring():
    exchange = ("all_reduce", 1 << 20, 32)
    form = collective_time("all_reduce", 1 << 20, 32, "trn1")
    found = model_estimate.links_s(exchange, "trn1")
    assert found == pytest.approx(form.time_s - start_s("trainium1"))
    assert found > 3 * form.least_s  # the first generation's ring is slower than its links
    assert model_estimate.exchange_s(exchange, "trn1", 5e-6) == pytest.approx(found + 5e-6)
    assert model_estimate.exchange_s(("all_reduce", 1 << 20, 1), "trn1", 5e-6) == 0


def test_no_estimate_is_below_its_bound():
    graph = Graph()
    left, right = graph.input((128, 256), "bfloat16"), graph.input((256, 512), "bfloat16")
    graph.outputs = [graph.dot_general(left, right, (1, 0), "float32")]
    made = type("Made", (), {"graph": graph, "weights": frozenset({1}), "missing": ()})
    found = model_estimate.whole(made, "trn1", 1, "none")
    assert found.seconds > max(found.products_s, found.hbm_s) > 0
    assert found.weight_bytes == 2 * 256 * 512
    assert Estimate(**json.loads(json.dumps(found.as_dict()))).as_dict() == found.as_dict()


def test_every_row_has_a_program_or_why_not():
    rows, refused = programs.read()
    wanted = {name for name, case in CASES.items() if not case.left_out}
    assert set(rows) | set(refused) == wanted
    assert not set(rows) & set(refused)


def test_no_program_takes_less_than_its_bound():
    for one in programs.programs():
        assert one.seconds(0.0) >= one.bound[0] * (1 - 1e-5)


@pytest.mark.parametrize("latency_s", [0.0, 37e-6])
def test_a_kept_program_takes_what_its_row_takes(latency_s):
    row = exchanging(10, 1e-3, 2e-3)
    kept = programs.Program(row.case, programs.found_of(row, "f" * 64))
    assert kept.seconds(latency_s) == pytest.approx(row.seconds(latency_s), rel=1e-5)
    assert (kept.exchanges, kept.bound) == (10, row.bound)
    assert kept.found.sources == "f" * programs.SHORT


def test_programs_are_read_as_they_are_kept(tmp_path, monkeypatch):
    rows, refused = programs.read()
    monkeypatch.setattr(programs, "FILE", tmp_path / "programs.json")
    assert programs.read() == ({}, {})
    programs.keep(rows, refused)
    assert programs.read() == (rows, refused)


@pytest.mark.slow
def test_many_prompts_take_what_one_and_a_second_one_take():
    def made(rows):
        graph = Graph()
        left, right = graph.input((rows, 1024), "bfloat16"), graph.input((1024, 1024), "bfloat16")
        graph.outputs = [graph.dot_general(left, right, (1, 0))]
        return type("Made", (), {"graph": graph, "weights": frozenset({1}), "missing": ()})

    # More than SBUF holds of each, as states of long prompts are.
    one, two, five = (made(16384 * prompts) for prompts in (1, 2, 5))
    found = model_estimate.whole(five, "trn1", 1, "none", (one, two, 5))
    whole = model_estimate.whole(five, "trn1", 1, "none")
    assert found.seconds == pytest.approx(whole.seconds, rel=0.01)
    assert (found.flop, found.hbm_s) == (whole.flop, whole.hbm_s)
