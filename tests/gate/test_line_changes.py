from dataclasses import astuple

import pytest
from gate_samples import scaled, scaled_twice, timed

from trnsim.gate.kernel_time import KernelLineTime
from trnsim.gate.line_changes import costly_lines, line_changes


def line(number, text, critical_us=1.0, busy_us=1.0, file="k.py"):
    return KernelLineTime(file, number, text, critical_us, busy_us)


def test_equal_texts_are_matched_in_order_wherever_they_moved():
    before = [line(3, "load()", 1.0), line(5, "load()", 2.0)]
    after = [line(30, "load()", 1.5), line(50, "load()", 2.0)]
    changes = line_changes(before, after)
    assert [(c.line.line, c.change_us, c.was) for c in changes] == [(30, 0.5, ""), (50, 0.0, "")]


def test_an_edited_line_is_beside_what_it_was():
    before = [line(1, "a()"), line(2, "load(4)", 2.0, 3.0), line(3, "c()")]
    after = [line(1, "a()"), line(2, "load(1)", 7.0, 9.0), line(3, "c()")]
    change = line_changes(before, after)[0]
    assert (change.was, change.change_us, change.busy_change_us) == ("load(4)", 5.0, 6.0)
    assert not change.is_new
    assert not change.is_gone


def test_new_and_gone_lines():
    before, after = (
        [line(1, "a()"), line(2, "b()", 3.0)],
        [line(1, "a()"), line(2, "c()"), line(3, "d()", 5)],
    )
    changes = {change.line.text: change for change in line_changes(before, after)}
    assert changes["d()"].is_new
    assert changes["c()"].was == "b()"
    gone = line_changes(before, after[:1])[-1]
    assert (gone.line.text, gone.change_us, gone.is_gone) == ("b()", -3.0, True)
    assert line_changes([], []) == ()


def test_lines_of_other_files_are_no_match():
    (new, gone) = line_changes([line(1, "a()", file="old.py")], [line(1, "a()", file="new.py")])
    assert new.is_new
    assert gone.is_gone


def test_a_new_line_costs_what_the_kernel_would_save_without_it():
    _, before = timed(scaled)
    run, after = timed(scaled_twice)
    changes = costly_lines(run.timeline, line_changes(before.lines, after.lines), 0.01)
    assert "reciprocal" in changes[0].line.text
    assert changes[0].cost_us == pytest.approx(after.time_us - before.time_us, rel=0.2)


def test_without_further_work_the_critical_path_says_where():
    run, time = timed(scaled)
    waiting = line_changes([], time.lines)[:1]
    assert costly_lines(run.timeline, waiting, 1e9)[0].cost_us == 0.0


def test_of_a_split_difference_edited_lines_alone_are_tried():
    _, before = timed(scaled)
    run, after = timed(scaled_twice)
    grown = [KernelLineTime(*row[:4], row[4] / 2) for row in map(astuple, before.lines)]
    changes = costly_lines(run.timeline, line_changes(grown, after.lines), 0.01, is_split=True)
    assert [c.line.text.partition("(")[0] for c in changes if c.cost_us] == ["nisa.reciprocal"]
    changes = costly_lines(run.timeline, line_changes(grown, after.lines), 0.01)
    assert len([c for c in changes if c.cost_us]) > 1
