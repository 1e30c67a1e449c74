"""The program of a step: when its kernels run, and what changes gain."""

import json

import pytest

from trnsim.profile.analysis.step_program import (
    StepKernel,
    StepProgram,
    operation_gain_s,
    step_gains,
)


def kernel(name, time_s, launch_s, **changes):
    fields = {"operation": name, "module": "", "phase": "forward"} | changes
    return StepKernel(name, time_s=time_s, launch_s=launch_s, **fields)


def program(rows, order, hbm=()):
    return StepProgram(rows, order, list(hbm), 1 << 30)


def simulated_s(pairs):
    """The ends of kernels of (device, launch) seconds, one after another."""
    started_s, end_s, ends = 0.0, 0.0, []
    for time_s, launch_s in pairs:
        started_s += launch_s
        end_s = max(started_s, end_s) + time_s
        ends.append(end_s)
    return ends


SLOW, FAST = kernel("slow", 5.0, 1.0), kernel("fast", 0.5, 2.0)


@pytest.mark.parametrize(
    "order", [[], [0], [1], [0, 1], [1, 0], [0, 1, 1, 1, 1, 0], [1, 1, 1], [0, 0, 0, 1]]
)
def test_a_kernel_runs_behind_its_launch_and_the_kernel_before(order):
    rows = [SLOW, FAST]
    made = program(rows, order)
    ends = simulated_s([(rows[at].time_s, rows[at].launch_s) for at in order])
    assert made.ends_s.tolist() == pytest.approx(ends)
    assert made.total_s == pytest.approx(ends[-1] if ends else 0.0)


def test_gains_are_those_of_the_step_timed_again():
    order = [0, 1, 1, 1, 1, 0]
    rows = [SLOW, FAST]
    pairs = [(rows[at].time_s, rows[at].launch_s) for at in order]
    total_s = simulated_s(pairs)[-1]
    changed = {
        "one launch": [(time_s, 0.0 if at else 2.0) for at, (time_s, _) in enumerate(pairs)],
        "the host": [(time_s, launch_s / 2) for time_s, launch_s in pairs],
        "the device": [(time_s / 2, launch_s) for time_s, launch_s in pairs],
    }
    for left, name in enumerate(("slow", "fast")):
        changed[f"{name} for nothing"] = [
            (0.0, 0.0) if at == left else pair for at, pair in zip(order, pairs, strict=True)
        ]
    gains = step_gains(program(rows, order))
    assert [row.gain_s for row in gains] == sorted((row.gain_s for row in gains), reverse=True)
    assert len(gains) == len(changed)
    for words, pairs in changed.items():
        (row,) = [row for row in gains if row.change.startswith(words)]
        assert row.gain_s == pytest.approx(total_s - simulated_s(pairs)[-1])


def test_what_is_hidden_gains_nothing():
    behind = [kernel("work", 1e-3, 1e-6), kernel("none", 0.0, 1e-6)]
    gains = {row.change: row.gain_s for row in step_gains(program(behind, [0, 1, 0, 1]))}
    assert "none for nothing" not in gains  # the host is ahead
    assert gains["the host twice as fast"] == pytest.approx(0.5e-6)  # of the first launch
    (alone,) = step_gains(program([kernel("work", 1e-3, 0.0)], [0]))[:1]
    assert alone.change == "work for nothing"
    assert step_gains(program([], [])) == []
    assert step_gains(program([kernel("none", 0.0, 0.0)], [0, 0])) == []


@pytest.mark.parametrize(
    ("launches", "gain_s"), [(0, 16.0), (1, 12.0), (3, 4.0), (4, 0.0), (9, 0.0)]
)
def test_launches_that_remain_of_an_operation_are_no_gain(launches, gain_s):
    # The host is behind: of 4 launches of 4 s, so many remain.
    made = program([kernel("mm", 0.0, 4.0), kernel("add", 1.0, 4.0)], [0, 0, 0, 0, 1])
    assert operation_gain_s(made, "mm", launches) == pytest.approx(gain_s)
    graph = program([kernel("a", 2.0, 1.0), kernel("b", 3.0, 0.0, operation="a")], [0, 1])
    assert operation_gain_s(graph, "a", 1) == pytest.approx(5.0)  # its launch remains
    assert operation_gain_s(graph, "b", 1) == 0.0


def test_the_eight_longest_operations_are_tried():
    rows = [kernel(f"op{at}", float(at + 1), 0.0) for at in range(9)]
    changes = {row.change for row in step_gains(program(rows, list(range(9))))}
    assert "op0 for nothing" not in changes
    assert "op1 for nothing" in changes


def test_a_stored_program_is_the_program():
    made = program([SLOW, FAST], [0, 1, 0], [(0, 3), (2, 5)])
    assert StepProgram.of_data(json.loads(json.dumps(made.as_data()))) == made


LEGAL = program([SLOW], [0, 0], [(0, 3), (2, 5)]).as_data()
ROW = LEGAL["kernels"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"order": [0, 1]}, r"order of program has 1; legal: whole numbers from 0 to 0"),
        ({"kernels": []}, r"order of program has 0; legal: none, as it has no kernels"),
        ({"order": [-1]}, "order of program has -1"),
        ({"order": [True]}, "order of program has True"),
        ({"order": ["0"]}, "order of program has '0'"),
        ({"kernels": []}, "order of program has 0"),
        ({"hbm": [[0]]}, "pairs of kernels that have run, 0 to 2 in order, and bytes"),
        ({"hbm": [[3, 1]]}, "pairs of kernels"),
        ({"hbm": [[2, 1], [0, 1]]}, "pairs of kernels"),
        ({"hbm": [[0, 1.5]]}, "hbm of program has 1.5"),
        ({"hbm_bytes": None}, "hbm_bytes of program has None"),
        ({"kernels": [ROW | {"name": 3}]}, "name of a kernel is 3; legal: text"),
        ({"kernels": [ROW | {"time_s": -1.0}]}, "time_s of a kernel is -1.0; legal: seconds"),
        ({"kernels": [ROW | {"launch_s": True}]}, "launch_s of a kernel is True"),
        ({"kernels": [ROW | {"launch_s": 1e13}]}, "launch_s of a kernel is 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        StepProgram.of_data(LEGAL | changes)
