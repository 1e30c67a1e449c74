"""What the check of published times by their bounds rests on: sentences, formulas, accounts."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "accuracy" / "models"))
import model_bounds
import model_gaps
import model_rows
import model_why
from closed_flop import closed_flop
from model_bounds import Figures, Line
from model_estimate import Estimate

from trnsim.graph import Graph

ROWS = {row["id"]: row for row in model_rows.rows()}


def test_each_sentence_is_of_a_row_and_names_what_it_rests_on():
    for pattern, given in model_why.WHY.items():
        assert any(re.fullmatch(pattern, name) for name in ROWS)
        assert given["why"].endswith(".")
        assert set(given["by"]) <= {*model_bounds.GAPS}
        assert given["by"] or given["beside"] in ROWS


def test_a_sentence_is_said_where_it_is_needed():
    assert model_why.sentence("llm-trn1-lat-1-tpot", 0.2).startswith("Two exchanges")
    assert model_why.sentence("llm-trn1-lat-1-tpot", 0.4) == ""
    assert model_why.sentence("trn3-new", 0.2) == ""


def figures(flop=100, counted=100, nbytes=100, moved=100, closed=None, products_s=1.0):
    gaps = dict.fromkeys(("exchanges", "array", "elements", "scores"), 0.0)
    least = Estimate(0.0, 0.0, products_s, 0.0, counted, 0, hbm_bytes=moved)
    return Figures(flop, nbytes, closed, least, gaps)


def line(part, published_s=2.0, estimate_s=None, name="trn3-new"):
    row = {"id": name, "kernel_or_model": name}
    one = model_rows.Part(1, {"name": name})
    case = model_rows.Case(row, model_rows.VISION, "trn1", published_s, (one,))
    return Line(case, [part], estimate_s)


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (line(figures(), published_s=0.5), "published 0.5 s is below its bound of 1 s"),
        (line(figures(), estimate_s=0.9), "the estimate of 0.9 s is below its bound of 1 s"),
        (line(figures(), published_s=4.0), "25.0% of the time, and bounds.json does not say why"),
        (
            line(figures(), published_s=4.0, name="dnn-inf2-vision_dit-lat-0"),
            "with array, elements it is 25.0% of the time",
        ),
        (line(figures(counted=101)), "the bound counts 101 FLOP of 100"),
        (line(figures(counted=20)), "the bound counts 20 FLOP of 100"),
        (line(figures(moved=101)), "the bound counts 101 bytes of 100"),
        (line(figures(closed=90)), "100 FLOP; by the configuration 90"),
    ],
)
def test_what_must_not_be_is_named(made, fault):
    (found,) = made.faults()
    assert fault in found
    assert list(line(figures(closed=100), estimate_s=1.5).faults()) == []


def test_the_formula_of_a_layer():
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 100,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 50,
    }
    spec = {"phase": "decode", "batch": 3, "past": 7}
    weights = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 100
    assert closed_flop(config, spec) == 3 * (2 * weights + 4 * 8 * 64 + 2 * 64 * 50)
    split = closed_flop(config, {**spec, "ranks": 4})
    assert split == 3 * (2 * 64 * (16 * 4 + 3 * 25) + 4 * 8 * 16 + 2 * 64 * 13)
    assert closed_flop(config, {**spec, "phase": "train"}) is None
    assert closed_flop({"model_type": "resnet"}, spec) is None


def test_accounts_of_a_product_and_of_elements():
    graph = Graph()
    x, w = graph.input((256, 64), "bfloat16"), graph.input((64, 256), "bfloat16")
    graph.outputs = [graph.elementwise("relu", graph.dot_general(x, w, (1, 0)))]
    found = model_gaps.gaps(graph, "trn2", 1, is_cast=False)
    assert found["array"] == pytest.approx(2 * 256 / 2.4e9)  # half of the rows are empty
    assert found["elements"] == pytest.approx(256 * 256 / 128 / 0.96e9)
    assert found["scores"] == 0
