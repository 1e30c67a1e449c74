"""Random programs of NKI 0.7 of fixed seeds, and whether a difference would be seen. More: `make
fuzz`."""

from dataclasses import replace

import latest
import latest_mistakes
import latest_parts
import numpy as np
import pytest

from trnsim.nki.language.grids.axis import GridAxis

SEEDS = range(200)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("first", SEEDS[::10])
def test_random_programs_give_what_numpy_says_and_mistakes_are_named(first):
    for seed in range(first, first + 10):
        assert latest.examine(seed) == []


def every_mistake():
    """Each text of a mistake, with each choice of one of its names."""
    for text, choices in latest_mistakes.MISTAKES:
        first = {name: values[0] for name, values in choices.items()}
        drawn = [first] + [
            first | {name: value} for name, values in choices.items() for value in values[1:]
        ]
        yield from (text.format(**each) for each in drawn)


@pytest.mark.parametrize("line", list(every_mistake()))
def test_a_mistake_is_refused_at_its_line_with_a_remedy(line):
    lines = (*latest_mistakes.PREAMBLE.split("\n"), *line.split("\n"), "return [x0]")
    program = latest.Program(0, 1, lines, {"x0": (np.zeros((1, 1), np.float32),)}, ())
    assert latest.check_refusal(program, must_fail=True) == ""


@pytest.mark.parametrize("edges", latest_mistakes.EDGES, ids=str)
def test_a_schedule_of_what_is_not_there_is_refused_at_its_line(edges):
    lines = (
        'a0 = nisa.memset(dst=nl.ndarray((1, 1), nl.float32), value=0.0, name="a0")',
        'b0 = nisa.memset(dst=nl.ndarray((1, 1), nl.float32), value=0.0, name="b0")',
        "return [x0]",
    )
    program = latest.Program(0, 1, lines, {"x0": (np.zeros((1, 1), np.float32),)}, (), edges)
    assert latest.check_refusal(program, must_fail=True) == ""


@pytest.mark.parametrize(("right", "wrong"), latest_mistakes.EXCHANGES)
def test_a_wrong_exchange_is_refused_at_its_line(right, wrong):
    program = next(p for p in map(latest.generate, SEEDS) if p.ranks > 1)
    assert right in program.source()
    lines = tuple(line.replace(right, wrong) for line in program.lines)
    assert latest.check_refusal(replace(program, lines=lines), must_fail=True) == ""


def test_a_program_of_every_part_is_among_the_first():
    texts = [latest.generate(seed).source() for seed in SEEDS]
    for word in ("nl.tiles", "nl.blocks", "nc_matmul", "scalar_store", "scalar_offset=place"):
        assert sum(word in text for text in texts) > len(SEEDS) // 10
    for word in ("nl.fori_loop", "_prepare", "depends_on", "with_schedule", "no_reorder"):
        assert any(word in text for text in texts)
    assert {latest.generate(seed).ranks for seed in SEEDS} == {1, latest_parts.RANKS}


def test_a_wrong_grid_is_found(monkeypatch):
    whole = GridAxis.elements.fget
    monkeypatch.setattr(GridAxis, "elements", property(lambda axis: max(whole(axis) - 1, 1)))
    assert any(latest.check(latest.generate(seed)) for seed in range(20))


def test_a_wrong_value_an_accepted_mistake_and_an_unnamed_error_are_found():
    program = next(p for p in map(latest.generate, SEEDS) if p.ranks == 1)
    first, *others = program.outputs[0]
    wrong = replace(program, outputs=((first + 1, *others),))
    assert "differs" in latest.check(wrong)
    assert latest.check_refusal(program, must_fail=True) == "a program with a mistake ran"
    assert latest.check_refusal(program, must_fail=False) == ""
    unnamed = replace(program, lines=("import json", "json.loads('')"))
    assert "Error" in latest.check_refusal(unnamed, must_fail=True)


def test_the_program_counts_its_failures(capsys, monkeypatch):
    assert latest.main(["--programs", "2"]) == 0
    assert "2 programs of NKI 0.7, and as many with a mistake: 0 fail" in capsys.readouterr().out
    monkeypatch.setattr(latest, "check", lambda _: "differs")
    assert latest.main(["--programs", "2"]) == 1
