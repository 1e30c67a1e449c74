"""Schedules: their bubbles in closed form, their orders, what they hold, and folding."""

from collections import Counter

import numpy as np
import pytest

from trnsim.errors import InternalError
from trnsim.system.train.layout import Layout
from trnsim.system.train.memory import in_flight
from trnsim.system.train.pipeline import (
    BACKWARD,
    FORWARD,
    WEIGHTS,
    StageCosts,
    orders,
    run,
    step_s,
)

TIMES = [(1.0, 1.0, 1.0), (1.0, 1.2, 0.8), (1.0, 1.5, 0.5)]
"""Of forward, of gradients by inputs, of gradients by weights."""


def equal(stages, forward, backward, weights, *, is_split, parts=1):
    count = stages * parts
    return StageCosts(
        [forward / parts] * count,
        [(backward if is_split else backward + weights) / parts] * count,
        [(weights if is_split else 0.0) / parts] * count,
    )


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "zb-h2"])
def test_a_bubble_is_that_of_its_closed_form(schedule, stages, times):
    forward, backward, weights = times
    shorter = {"1f1b": 0.0, "zb-h1": 2 * weights, "zb-h2": 3 * weights}[schedule]
    expected = (stages - 1) * (forward + backward + weights - shorter)
    for micro_batches in (2 * stages, 2 * stages + 1, 5 * stages):
        costs = equal(stages, *times, is_split=schedule != "1f1b")
        found = run(orders(schedule, stages, 1, micro_batches), costs)
        assert min(found.bubble_s) == pytest.approx(expected, abs=1e-9)
        assert found.bubble_s[0] / found.busy_s[0] == pytest.approx(
            expected / (micro_batches * sum(times)), abs=1e-9
        )


@pytest.mark.parametrize(
    ("stages", "parts", "rounds"), [(2, 2, 1), (4, 2, 3), (3, 4, 2), (8, 4, 4)]
)
def test_interleaved_parts_divide_the_bubble(stages, parts, rounds):
    costs = equal(stages, 1.0, 1.0, 1.0, is_split=False, parts=parts)
    found = run(orders("1f1b", stages, parts, stages * rounds), costs)
    assert min(found.bubble_s) == pytest.approx((stages - 1) * 3.0 / parts)


@pytest.mark.parametrize(
    ("schedule", "stages", "parts", "micro_batches"),
    [
        ("1f1b", 4, 1, 7),
        ("1f1b", 4, 3, 8),
        ("zb-h1", 4, 1, 3),
        ("zb-h2", 3, 1, 11),
        ("1f1b", 5, 1, 2),
    ],
)
def test_every_operation_is_done_once_after_what_it_needs(schedule, stages, parts, micro_batches):
    made = orders(schedule, stages, parts, micro_batches)
    kinds = (FORWARD, BACKWARD) if schedule == "1f1b" else (FORWARD, BACKWARD, WEIGHTS)
    for at, order in enumerate(made):
        expected = {
            (kind, part, one)
            for kind in kinds
            for part in range(at, stages * parts, stages)
            for one in range(micro_batches)
        }
        assert Counter(order) == Counter(expected)
    costs = StageCosts([1.0] * stages * parts, [2.0] * stages * parts, [1.0] * stages * parts, 0.5)
    spans = {span.operation: span for one in run(made, costs).stages for span in one}
    for (kind, part, one), span in spans.items():
        if kind == FORWARD and part:
            assert span.start_s >= spans[FORWARD, part - 1, one].end_s + 0.5
        if kind == BACKWARD and part < stages * parts - 1:
            assert span.start_s >= spans[BACKWARD, part + 1, one].end_s + 0.5
        if kind == BACKWARD:
            assert span.start_s >= spans[FORWARD, part, one].end_s
        if kind == WEIGHTS:
            assert span.start_s >= spans[BACKWARD, part, one].end_s


@pytest.mark.parametrize(
    ("schedule", "parts"), [("1f1b", 1), ("1f1b", 2), ("1f1b", 4), ("zb-h1", 1), ("zb-h2", 1)]
)
def test_what_memory_counts_in_flight_is_the_most_that_a_schedule_holds(schedule, parts):
    stages, micro_batches = 4, 16
    layout = Layout(pipeline=stages, virtual=parts, schedule=schedule, global_batch=micro_batches)
    last = BACKWARD if schedule == "1f1b" else WEIGHTS  # which needs what forward kept
    for at, order in enumerate(orders(schedule, stages, parts, micro_batches)):
        held = most = 0
        for kind, _, _ in order:
            held += (kind == FORWARD) - (kind == last)
            most = max(most, held)
        assert in_flight(layout, at) == most


def test_transfers_are_waited_for():
    free = equal(4, 1.0, 1.0, 1.0, is_split=False)
    slow = StageCosts(free.forward_s, free.backward_s, free.weights_s, 0.1)
    times = [run(orders("1f1b", 4, 1, 8), one).time_s for one in (free, slow)]
    # There and back once, and again for each round in which a stage waits for its neighbour.
    assert times[1] - times[0] >= 2 * 3 * 0.1 - 1e-9


def test_the_slowest_stage_sets_the_pace():
    costs = StageCosts([1.0, 3.0, 1.0], [1.0, 3.0, 1.0], [0.0] * 3)
    assert run(orders("1f1b", 3, 1, 50), costs).time_s == pytest.approx(50 * 6.0 + 1.0 + 1.0)


def test_stages_that_wait_for_each_other_are_a_bug():
    made = orders("1f1b", 2, 1, 2)
    made[0].reverse()
    with pytest.raises(InternalError, match="stages wait for each other"):
        run(made, StageCosts([1.0] * 2, [1.0] * 2, [0.0] * 2))


@pytest.mark.slow
def test_a_long_step_is_folded_to_what_the_whole_takes():
    random = np.random.default_rng(5)
    for _ in range(6):
        stages = int(random.choice([2, 4, 8, 16]))
        parts = int(random.choice([1, 2]))
        layers = [1 + 0.02 * random.random() for _ in range(stages * parts)]
        layers[-1] += 0.3  # the product of the vocabulary
        costs = StageCosts(layers, [2 * one for one in layers], [0.0] * stages * parts, 0.05)
        micro_batches = stages * (12_000 // (stages * stages * parts))
        whole = run(orders("1f1b", stages, parts, micro_batches), costs).time_s
        assert step_s("1f1b", stages, parts, micro_batches, costs) == pytest.approx(whole, rel=1e-3)


@pytest.mark.slow
def test_many_stages_are_folded_after_few_rounds():
    layers = [1.0] * 63 + [1.2]
    costs = StageCosts(layers, [2 * one for one in layers], [0.0] * 64, 0.02)
    whole = run(orders("1f1b", 64, 1, 1024), costs).time_s
    assert step_s("1f1b", 64, 1, 1024, costs) == pytest.approx(whole, rel=2e-3)
