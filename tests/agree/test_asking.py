"""Three small models: every command that can be asked the same says the same (`make agree`: 20)."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="compile asks plans from the torch room")
from asking import Answer, Case, faults, plans, told
from small_models import BERT, LLAMA, VIT

from trnsim.device.configured import question_of
from trnsim.device.model_report import Subject, report_model
from trnsim.estimate.estimate import Estimate
from trnsim.graph import Graph
from trnsim.workload.shape import ModelShape

CHIPS = ("trn1", "inf2", "trn2", "trn3")
GPUS = ("p5en.48xlarge", "g6.xlarge", "p4de.24xlarge")
KINDS = (
    (BERT, "encode", 4, 96, 1),
    (VIT, "encode", 3, 1, 1),
    (LLAMA, "prefill", 1, 200, 2),
    (LLAMA, "decode", 1, 511, 2),
    (LLAMA, "decode", 32, 2047, 8),
    (LLAMA, "train", 2, 256, 1),
)


def case_of(kind, chip, folder):
    config, phase, batch, sequence, ranks = kind
    path = folder / f"{config['model_type']}.json"
    path.write_text(json.dumps(config))
    has_text = config is not VIT
    return Case(config["model_type"], path, chip, phase, batch, sequence, ranks, has_text)


def compiled(case):
    """`trnsim compile` of a config.json, whose graph, which does not decide the time, is small."""
    decodes = case.phase == "decode"
    tokens, past = (1, case.sequence) if decodes else (case.sequence, 0)
    shape = ModelShape(case.phase, case.batch, tokens, past, case.ranks)
    graph = Graph()
    one, two = (graph.input((4, 4), "float32") for _ in range(2))
    graph.outputs = [graph.dot_general(one, two, (1, 0))]
    made = SimpleNamespace(
        graph=graph, weights=frozenset(), names={}, operators=(), missing=(), calls=(), origins={}
    )
    subject = Subject("it", made, ask=question_of(case.path, shape, "bfloat16"))
    return Answer("compile", report_model(subject, case.chip).estimate)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: f"{one[0]['model_type']}-{one[1]}-{one[2]}")
def test_commands_say_the_same_of_a_chip(kind, chip, tmp_path):
    case = case_of(kind, chip, tmp_path)
    answers = [compiled(case), *plans(case)]
    assert len(answers) >= 2
    assert not faults(answers), told(answers)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_plan_and_a_decision_say_the_same_of_a_gpu(gpu, tmp_path):
    answers = plans(case_of(KINDS[0], gpu, tmp_path))
    assert [one.command for one in answers] == ["plan infer", "assess"]
    assert not faults(answers), told(answers)


@pytest.mark.parametrize("factor", [0.985, 1.0, 1.015])
def test_a_difference_of_more_than_one_percent_is_a_fault(factor):
    one = Answer("compile", Estimate({"products": 1.0}, {"rows": 0.1}))
    other = Answer(
        "plan serve",
        Estimate({"products": factor, "host": 9.0}, {"rows": 0.1}),
        frozenset({"host"}),
    )
    assert bool(faults([one, other])) == (factor != 1.0)


def test_an_interval_that_differs_is_a_fault():
    one = Answer("compile", Estimate({"products": 1.0}, {"rows": 0.1}))
    other = Answer("plan infer", Estimate({"products": 1.0}, {"rows": 0.2}))
    assert [fault.split()[4] for fault in faults([one, other])] == ["p10", "p90"]
