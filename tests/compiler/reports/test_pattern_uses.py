"""Which patterns a graph has, and its program without each."""

from dataclasses import replace

import pytest
from made_graphs import Made

from trnsim import compiler
from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.compiler.reports.pattern_uses import PatternUse, pattern_blocks, pattern_uses
from trnsim.document.text import section_text
from trnsim.graph.ops.reductions import Sort
from trnsim.profile.units import time_text


def pattern_text(patterns, program):
    return section_text("", pattern_blocks(patterns, program), 200)


def patterns_of(made, *outputs):
    """The patterns of a graph by name, and its program."""
    made.graph.outputs = list(outputs)
    program = compiler.compile(made.graph, "trn2", weights=made.weights)
    told = []
    found = pattern_uses(made.graph, program, made.weights, told.append)
    assert [one for one in told if one.startswith("without")] == [
        f"without {one.pattern.name}" for one in found if not one.pattern.is_needed
    ]
    return {one.pattern.name: one for one in found}, program


def spelled(made):
    """Attention that is spelled out, of queries and keys that are turned."""
    q, k, v = (made.given(1, 2, 40, 32) for _ in "qkv")
    scores = made.graph.dot_general(made.rotary(q), made.rotary(k), (3, 3))
    return made.graph.dot_general(made.softmax(made.of("multiply", scores, 0.2)), v, (3, 2))


def test_a_program_without_a_pattern_is_one_that_never_had_it():
    made = Made("bfloat16")
    found, program = patterns_of(made, spelled(made))
    assert [*found] == ["attention", "rotation"]
    assert [one.times for one in found.values()] == [1, 2]
    assert found["attention"].without.device_time_s > program.device_time_s
    text = pattern_text(found.values(), program)
    without = found["attention"].without
    assert f"attention  1      {without.instructions:,}, {time_text(without.device_time_s)}" in text
    assert "needed" not in text
    # A second time it is as it was: what was left out is not remembered.
    again = compiler.compile(made.graph, "trn2", weights=made.weights)
    assert again.instructions == program.instructions


def test_what_is_done_ahead_and_twice_is_counted():
    made = Made("bfloat16")
    x, w = made.given(8, 16), made.weight(16, 16)
    turned = made.graph.transpose(w, (1, 0))
    sides = [made.graph.dot_general(x, turned, (1, 0)) for _ in range(2)]
    found, program = patterns_of(made, made.of("add", *sides))
    assert {name: one.times for name, one in found.items()} == {"twice": 1, "ahead": 1}
    assert found["twice"].without.instructions > program.instructions


def test_what_the_chip_has_no_instructions_for_is_needed():
    made = Made()
    keys = made.given(4, 30)
    found, program = patterns_of(made, made.graph.apply(Sort(1, is_descending=False), keys))
    assert found["sort"].without is None
    text = pattern_text(found.values(), program)
    assert "needed" in text.splitlines()[1]
    assert text.endswith("needed: the chip has no instructions for what the pattern replaces")
    assert found["sort"].as_dict() == {
        "name": "sort",
        "meaning": "every operand gathered by the sorted indices of the first one",
        "source": "",
        "times": 1,
        "is_needed": True,
        "instructions_without": None,
        "device_time_without_s": None,
    }


def test_a_graph_without_patterns_says_so():
    made = Made()
    found, program = patterns_of(made, made.of("tanh", made.given(3, 5)))
    assert found == {}
    assert pattern_text((), program).startswith("no pattern")


def test_what_the_program_without_a_pattern_says_is_said():
    made = Made("bfloat16")
    found, program = patterns_of(made, spelled(made))
    other = replace(
        found["attention"].without, instructions=70, notes=("not one program: no room",)
    )
    rows = [PatternUse(ATTENTION, 1, other), found["rotation"]]
    lines = pattern_text(rows, program).splitlines()
    assert lines[-1] == "without attention: not one program: no room"
    assert lines[1].split()[:3] == ["attention", "1", "70,"]
    assert rows[0].as_dict()["instructions_without"] == 70


@pytest.mark.slow
def test_a_long_contraction_is_in_parts():
    made = Made("bfloat16")
    x, w = made.given(520, 9000), made.weight(16, 9000)
    found, _ = patterns_of(made, made.graph.dot_general(x, w, (1, 1)))
    assert found["in parts"].times == 1
