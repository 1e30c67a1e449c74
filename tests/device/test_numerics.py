import subprocess
import sys

import pytest

from trnsim.device.numerics import mode, numerics, rounding_generator
from trnsim.errors import BadInput


def test_numerics_hold_inside_and_are_put_back():
    before = mode.kind, mode.is_stochastic
    with numerics("exact", is_stochastic=True):
        assert (mode.kind, mode.is_stochastic) == ("exact", True)
        with numerics("shapes"):
            assert (mode.kind, mode.is_stochastic) == ("shapes", True)
        assert mode.kind == "exact"
    assert (mode.kind, mode.is_stochastic) == before


def test_numerics_are_put_back_after_an_error():
    before = mode.kind
    with pytest.raises(ZeroDivisionError), numerics("exact"):
        1 / 0  # noqa: B018  an error of the program
    assert mode.kind == before


def test_a_count_begins_anew():
    with numerics("exact") as on_host:
        on_host["one"] += 1
    with numerics("exact") as on_host:
        assert not on_host


def test_a_count_has_those_of_the_contexts_within():
    with numerics("exact") as outer:
        outer["one"] += 1
        with numerics("exact") as inner:
            mode.host_fallbacks["two"] += 1
        assert inner == {"two": 1}
        assert mode.host_fallbacks is outer
    assert outer == {"one": 1, "two": 1}


def test_other_numerics_are_refused():
    slow = numerics("slow")
    with pytest.raises(BadInput, match="numerics 'slow'; legal: fast, exact, shapes"):
        slow.__enter__()


def test_the_variable_is_checked_when_a_program_begins():
    found = subprocess.run(
        [sys.executable, "-c", "import trnsim.device.numerics"],
        env={"TRNSIM_NUMERICS": "slow"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TRNSIM_NUMERICS='slow'; legal: fast, exact, shapes" in found.stderr


def test_a_core_rounds_by_the_seed_that_the_environment_names(monkeypatch):
    monkeypatch.delenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", raising=False)
    plain, other = (rounding_generator(core).random() for core in (0, 1))
    assert plain != other
    assert rounding_generator(0, 5).random() != plain
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "5")
    five = rounding_generator(0).random()
    assert five == rounding_generator(0, 9).random() != plain
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "-1")
    with pytest.raises(BadInput, match="SEED='-1' is no number from 0 on"):
        rounding_generator(0)
