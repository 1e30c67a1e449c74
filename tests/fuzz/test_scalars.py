"""Random programs of scalars of fixed seeds. More: python tests/fuzz/scalars.py."""

import operator

import numpy as np
import pytest
import scalars


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_of_scalars_equal_pythons_integers(first):
    for seed in range(first, first + 50):
        assert not scalars.failure(scalars.generate(seed))


def test_programs_are_of_both_widths_and_most_of_them_wrap():
    programs = [scalars.generate(seed) for seed in range(200)]
    assert {program.dtype for program in programs} == {np.int32, np.int64}
    wrapping = [
        program
        for program in programs
        if any(
            operation.of([*program.inputs, *program.expected()]) != result
            for operation, result in zip(program.operations, program.expected(), strict=True)
        )
    ]
    assert len(wrapping) > 100


def test_a_wrong_operator_is_found(monkeypatch, capsys):
    monkeypatch.setitem(scalars.ORACLE, "*", lambda x, y: operator.mul(x, y) + (abs(x) > 2**31))
    assert scalars.main(["--programs", "100"]) == 1
    assert capsys.readouterr().out.startswith("seed ")
    monkeypatch.undo()
    assert scalars.main(["--programs", "3"]) == 0
    assert "3 programs" in capsys.readouterr().out
