"""Random layouts: a step of one rank a stage is the step of all ranks.

Two hundred on up to 256 ranks; docs/runs.md has them on up to 4,096.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from unfolded import Unfolded

from trnsim.estimate.few import FewConstants
from trnsim.place.machine import machine
from trnsim.system.train import pipeline
from trnsim.system.train.layout import Layout, is_legal
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.config import from_config

COUNT = int(os.environ.get("TRNSIM_FOLDINGS", "200"))
DAILY = 30
"""Of these, as many as have every axis of a layout."""
NODES = int(os.environ.get("TRNSIM_FOLDING_NODES", "4"))
TIMES = FewConstants(2.5e13, 2e11, 1.0, 1e-5, 0.1, "a test")
SIZES = {
    "hidden_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 32000,
}
DENSE = from_config({"model_type": "llama", **SIZES}, "dense.json")
EXPERTS = from_config(
    {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, **SIZES},
    "experts.json",
)


def powers(random, most):
    return 2 ** int(random.integers(0, most.bit_length()))


def random_layout(seed):
    """A model, a machine and a legal layout of all its ranks."""
    random = np.random.default_rng(seed)
    while True:
        model = (DENSE, EXPERTS)[random.integers(2)]
        name = ("trn1.32xlarge", "trn2.48xlarge")[random.integers(2)]
        where = machine(name, powers(random, NODES))
        tensor, pipeline_, context = powers(random, 16), powers(random, 8), powers(random, 4)
        data = where.ranks // (tensor * pipeline_ * context)
        virtual = powers(random, 2) if pipeline_ > 1 else 1
        expert = powers(random, 8) if model is EXPERTS else 1
        layout = Layout(
            tensor=tensor,
            pipeline=pipeline_,
            virtual=virtual,
            data=data,
            context=context,
            expert=expert,
            zero=1,
            recompute=("selective", "full")[random.integers(2)],
            is_sequence=bool(random.integers(2)),
            global_batch=data * pipeline_ * int(random.integers(1, 4)),
            sequence=2048,
        )
        if data and is_legal(layout, model, where):
            return model, where, layout


@pytest.mark.parametrize(
    "seed",
    [pytest.param(at, marks=pytest.mark.slow if at >= DAILY else ()) for at in range(COUNT)],
)
def test_ranks_beside_each_other_change_nothing(seed):
    model, where, layout = random_layout(seed)
    steps = TrainingSteps(model, where, TIMES)
    costs = steps.costs(steps.work(layout), layout)
    folded_s = pipeline.step_s(
        layout.schedule, layout.pipeline, layout.virtual, layout.micro_batches, costs
    )
    assert folded_s == pytest.approx(Unfolded(model, where, layout, TIMES).pipeline_s(), rel=0.01)


def test_layouts_are_of_all_kinds():
    layouts = [random_layout(seed)[2] for seed in range(200)]
    for axis in ("tensor", "pipeline", "virtual", "data", "context", "expert"):
        assert sum(getattr(one, axis) > 1 for one in layouts) > 20
        assert sum(getattr(one, axis) > 1 for one in layouts[:DAILY]) > 2
    assert max(one.ranks for one in layouts) >= 64 * NODES


def test_the_oracle_sees_a_group_that_lies_elsewhere():
    """Data ranks next to each other would not leave their instance."""
    model, where = DENSE, machine("trn2.48xlarge", 2)
    layout = Layout(tensor=16, data=8, global_batch=8, sequence=2048)
    far = Unfolded(model, where, layout, TIMES).ranks.exchange_s("data", "all_reduce", 1e8)
    near = Unfolded(model, where, replace(layout, tensor=1, data=128), TIMES).ranks.exchange_s(
        "data", "all_reduce", 1e8
    )
    assert far != pytest.approx(near, rel=0.2)
