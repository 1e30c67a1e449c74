"""A step: its parts, what moves it, and that ranks beside each other change nothing."""

import math
import time
from dataclasses import replace
from importlib import import_module

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput, OutOfMemory
from trnsim.estimate.few import FewConstants
from trnsim.estimate.question import Question, answer
from trnsim.fabric import exchange as collectives
from trnsim.fabric import fabric
from trnsim.facts import Evidence, Provenance, Rate
from trnsim.place.links import neuron
from trnsim.place.machine import machine
from trnsim.system.train import exchanges
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.resident import parameters

link_lines = import_module("trnsim.place.links.exchange")
INSIDE = (collectives.exchange,)
FACT = Provenance(Evidence.DOCUMENTED, "a test")
FAST = FewConstants(2e13, 1e15, 1.0, 0.0, 0.1, "a test")


@pytest.fixture(scope="module")
def steps(llama, trn2):
    return TrainingSteps(llama, trn2)


def test_parts_add_up_to_the_step(steps, layout):
    found = steps.step(layout)
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s.p50)
    assert found.step_s.p10 < found.step_s.p50 < found.step_s.p90
    assert found.sequences_per_s.p50 == pytest.approx(256 / found.step_s.p50)
    assert found.sequences_per_s.p10 < found.sequences_per_s.p90
    tokens = 256 * 4096 / 64 / found.step_s.p50
    assert found.tokens_per_s_per_chip.p50 == pytest.approx(tokens)
    assert len(found.memory) == 4


def test_what_layouts_share_is_what_each_has_alone(mixtral, trn2):
    """Times that are kept for other layouts are those of a layout that nothing was kept for."""
    base = Layout(tensor=8, data=8, global_batch=64, sequence=4096)
    changes = (
        {},
        {"zero": 2},
        {"zero": 3},
        {"zero": 3, "data": 4, "pipeline": 2},
        {"zero": 3, "expert": 8},
        {"pipeline": 2, "data": 4},
        {"pipeline": 4, "data": 2, "schedule": "zb-h1"},
        {"recompute": "full"},
        {"dtype": "fp32"},
        {"micro_batch": 2},
        {"tensor": 4, "data": 16, "is_sequence": True},
    )
    layouts = [replace(base, **change) for change in changes]
    shared = TrainingSteps(mixtral, trn2)
    together = [shared.rough_s(layout) for layout in layouts + layouts[::-1]]
    alone = [TrainingSteps(mixtral, trn2).rough_s(layout) for layout in layouts]
    assert together == alone + alone[::-1]
    assert len(set(alone)) == len(alone)


def test_exchanges_err_with_computing_where_the_rows_had_them(llama, trn2, layout):
    found = TrainingSteps(llama, trn2, FAST).step(layout)
    assert found.parts_s["tensor"] > 0
    moving_s = found.step_s.p50 - found.parts_s["host"]
    high = (found.step_s.p90 - found.parts_s["host"]) / moving_s
    assert high == pytest.approx(math.exp(1.2816 * 0.1), rel=0.02)


@pytest.mark.parametrize("name", ["inf2.48xlarge", "trn1", "trn2", "p4d.24xlarge", "p5en"])
@pytest.mark.parametrize("sizes", [{}, {"pipeline": 2, "data": 2, "zero": 1}, {"zero": 3}])
def test_a_step_is_as_sure_as_a_micro_batch_alone(name, sizes, make_llama):
    """What a step has besides is no question of its own: exchanges of data ranks, optimizer."""
    model, where = make_llama(num_hidden_layers=2, vocab_size=32000), machine(name)
    layout = Layout(data=4, micro_batch=2, global_batch=16, sequence=256, recompute="none")
    step = TrainingSteps(model, where).timed(replace(layout, **sizes), ()).estimate
    alone = answer(Question(model, Pass(Phase.TRAIN, 2, 256), where))
    besides_s = sum(step.parts_s[name] for name in ("data", "optimizer", "bubble"))
    assert besides_s > 0
    sigma = step.sigma * step.time_s / (step.time_s - step.parts_s["host"])
    assert sigma == pytest.approx(alone.sigma, rel=1e-3)  # a stage's parts stand for all stages'


def test_useful_flops_are_six_a_parameter_and_token_and_attention(steps, layout, llama):
    products = 6 * (parameters(llama) - 128256 * 4096) * 4096
    attention = 6 * 32 * 4096 * 4096 * 4097  # of which a causal mask leaves half
    assert steps.flop(layout) == pytest.approx(256 * (products + attention), rel=1e-3)


def test_the_bubble_is_that_of_the_closed_form(llama, trn2, layout):
    found = TrainingSteps(llama, trn2, FAST).step(
        replace(layout, tensor=2, data=32, is_sequence=False)
    )
    busy_s = found.step_s.p50 - sum(found.parts_s[n] for n in ("bubble", "optimizer", "host"))
    # 8 micro batches on 4 stages, of which the last has the product of the vocabulary besides.
    assert found.parts_s["bubble"] / busy_s == pytest.approx(3 / 8, rel=0.2)


def test_zero_bubble_schedules_wait_less(steps, layout):
    waits = [
        steps.step(replace(layout, schedule=name)).parts_s["bubble"]
        for name in ("1f1b", "zb-h1", "zb-h2")
    ]
    assert waits == sorted(waits, reverse=True)
    assert waits[1] < 0.8 * waits[0]


def test_interleaved_stages_wait_less(steps, layout):
    plain, parts = (steps.step(replace(layout, virtual=n)).parts_s["bubble"] for n in (1, 4))
    assert parts < 0.6 * plain


AXES = [
    {"tensor": 4, "data": 16},
    {"pipeline": 2, "data": 16},
    {"virtual": 2},
    {"context": 2, "data": 4},
    {"recompute": "full"},
    {"recompute": "none"},
    {"micro_batch": 2},
    {"global_batch": 512},
    {"sequence": 8192},
    {"zero": 0},
    {"zero": 3},
    {"is_sequence": False},
    {"dtype": "fp8"},
    {"optimizer": "sgd"},
    {"schedule": "zb-h1"},
]


@pytest.mark.parametrize("changed", AXES)
def test_every_axis_moves_the_step(changed, steps, layout):
    assert steps.step(replace(layout, **changed)).step_s != steps.step(layout).step_s


def test_an_update_moves_the_bytes_of_its_dtype(llama, trn2, layout):
    """AdamW, of each parameter: 2 x 12 + 4 + 2 bytes in BF16 with a copy; 2 x 8 + 4 + 8 in FP32."""
    steps = TrainingSteps(llama, trn2)
    bf16, fp32 = (
        steps.timed(replace(layout, dtype=dtype), ()).parts_s["optimizer"]
        for dtype in ("bf16", "fp32")
    )
    assert fp32 / bf16 == pytest.approx(28 / 30)


def test_experts_ranks_move_the_step(mixtral, trn2):
    where = TrainingSteps(mixtral, trn2)
    one = Layout(tensor=8, data=32, is_sequence=True, global_batch=64, zero=3)
    found = [where.step(replace(one, expert=expert)) for expert in (1, 2, 8)]
    assert len({step.step_s for step in found}) == 3
    assert found[0].parts_s["expert"] == 0.0 < found[1].parts_s["expert"]


def with_chip(where, peak=1.0, memory=1.0):
    chip = where.chip
    peaks = {name: Rate(peak * rate, FACT) for name, rate in chip.peak_flop_per_s.items()}
    slower = Rate(memory * chip.memory_bytes_per_s, FACT)
    return replace(where, chip=replace(chip, peak_flop_per_s=peaks, memory_bytes_per_s=slower))


@pytest.mark.parametrize("rates", [{"peak": 0.5}, {"memory": 0.25}])
def test_a_worse_chip_makes_a_longer_step(rates, llama, trn2, layout):
    worse = TrainingSteps(llama, with_chip(trn2, **rates)).step(layout)
    assert worse.step_s.p50 > TrainingSteps(llama, trn2).step(layout).step_s.p50


@pytest.fixture
def with_links(monkeypatch):
    """Make links of a type of instance twice as fast; exchanges that are known are forgotten."""
    known = (
        link_lines._lines,
        neuron._one_instance,
        neuron.inside_lines,
        exchanges._exchange,
        *INSIDE,
    )

    def change(name, fact):
        rows = catalogue()
        row = rows.instances[name]
        if fact == "link":
            chip = rows.chips[row.accelerator]
            faster = replace(
                chip,
                link_bytes_per_s=Rate(2 * chip.link_bytes_per_s, FACT),
                server_link_bytes_per_s=Rate(2 * chip.server_link_bytes_per_s, FACT),
            )
            rows = replace(rows, chips={**rows.chips, row.accelerator: faster})
        else:
            faster = replace(row, efa_bytes_per_s=Rate(2 * row.efa_bytes_per_s, FACT))
            rows = replace(rows, instances={**rows.instances, name: faster})
        for room in (link_lines, fabric):
            monkeypatch.setattr(room, "catalogue", lambda: rows)
        for one in known:
            one.cache_clear()

    yield change
    for one in known:
        one.cache_clear()


@pytest.mark.parametrize(
    ("fact", "axes", "moved"),
    [
        ("efa", {"tensor": 8, "data": 32}, {"data"}),
        ("efa", {"tensor": 8, "pipeline": 4, "data": 8}, {"bubble"}),
        ("link", {"tensor": 8, "data": 32}, {"tensor"}),
        ("link", {"context": 8, "data": 32, "zero": 1}, {"context"}),
    ],
)
def test_a_link_moves_what_goes_over_it_and_no_other(fact, axes, moved, llama, trn2, with_links):
    layout = Layout(global_batch=256, **axes)
    times = replace(FAST, flop_per_s=1e18)  # nothing hides behind computing
    before = TrainingSteps(llama, trn2, times).timed(layout, ()).parts_s
    with_links("trn2.48xlarge", fact)
    after = TrainingSteps(llama, trn2, times).timed(layout, ()).parts_s
    assert {name for name in before if after[name] < 0.97 * before[name]} >= moved
    beside = {"compute", "optimizer", "host"} | ({"tensor", "context"} if fact == "efa" else set())
    assert all(after[name] == before[name] for name in beside)


def test_exchanges_of_data_ranks_hide_behind_computing(llama, trn2, layout):
    slow = TrainingSteps(llama, trn2, FAST).step(layout)
    fast = TrainingSteps(llama, trn2, replace(FAST, flop_per_s=1e18)).step(layout)
    assert slow.data_hidden_s > 0
    assert fast.data_hidden_s < slow.data_hidden_s
    assert fast.parts_s["data"] > slow.parts_s["data"]
    whole = [one.data_hidden_s + one.parts_s["data"] for one in (slow, fast)]
    assert whole[0] == pytest.approx(whole[1], rel=1e-3)


def test_more_data_ranks_with_as_many_sequences_each_take_little_longer(llama):
    times = []
    for count in (4, 16, 64):
        layout = Layout(tensor=8, data=8 * count, is_sequence=True, global_batch=64 * count)
        times.append(TrainingSteps(llama, machine("trn2", count)).step(layout).step_s.p50)
    assert max(times) < 1.1 * min(times)


def test_half_a_million_chips_are_one_rank_a_stage(make_llama):
    model = make_llama(
        hidden_size=16384, num_hidden_layers=126, num_attention_heads=128, intermediate_size=53248
    )
    layout = Layout(
        tensor=64, pipeline=18, data=1736, is_sequence=True, global_batch=1736 * 36, sequence=8192
    )
    where = machine("trn2", 31_248)
    assert where.chips == 499_968
    begun_s = time.process_time()
    found = TrainingSteps(model, where).step(layout)
    assert 0.05 < found.mfu < 0.6
    assert time.process_time() - begun_s < 20  # a bound against a loop over ranks, not a speed


def test_what_cannot_be_is_refused_before_it_is_timed(steps, layout):
    with pytest.raises(BadInput, match="--tp 128 is more than"):
        steps.step(replace(layout, tensor=128))
    with pytest.raises(OutOfMemory, match="stage 0 of 1 needs"):
        steps.step(Layout(data=256, global_batch=256, zero=0))


@pytest.mark.parametrize("changed", [{}, *AXES])
def test_the_rough_time_of_a_search_is_near_the_step(changed, steps, layout):
    one = replace(layout, **changed)
    assert steps.rough_s(one) == pytest.approx(steps.step(one).step_s.p50, rel=0.12)


@pytest.mark.parametrize("tensor", [4, 8])
def test_one_stage_has_no_bubble(llama, tensor):
    flat = Layout(tensor=tensor, data=128 // tensor, global_batch=256)
    assert TrainingSteps(llama, machine("trn2", 2)).step(flat).parts_s["bubble"] == 0
