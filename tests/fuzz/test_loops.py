"""Random loops of fixed seeds, with affine steps and without. More: python tests/fuzz/loops.py."""

import loops
import pytest

from trnsim.program import affine


def test_steps_change_nothing_that_random_loops_compute(capsys):
    assert loops.main(["--kernels", "20"]) == 0
    _, recorded, together = (
        int(word) for word in capsys.readouterr().out.split() if word.isdigit()
    )
    assert recorded > 12
    assert together > 100


@pytest.mark.slow
def test_steps_change_nothing_that_a_thousand_loops_compute():
    assert loops.main(["--kernels", "1000", "--first", "1000"]) == 0


def test_steps_that_ignore_what_others_write_are_found(monkeypatch, capsys):
    monkeypatch.setattr(affine, "_level_above_conflicts", lambda *_: 0)
    assert loops.main(["--kernels", "20"]) > 0
    assert "differs on inputs" in capsys.readouterr().out
