import pytest

from trnsim.device.numerics import asked_numerics, asks_for_stochastic_rounding, checked
from trnsim.errors import BadInput


def test_the_environment_says_how_values_are_computed(monkeypatch):
    monkeypatch.delenv("TRNSIM_NUMERICS", raising=False)
    assert asked_numerics() == "fast"
    monkeypatch.setenv("TRNSIM_NUMERICS", "exact")
    assert asked_numerics() == "exact"


def test_another_word_is_refused_with_the_legal_ones(monkeypatch):
    monkeypatch.setenv("TRNSIM_NUMERICS", "slow")
    with pytest.raises(BadInput, match="TRNSIM_NUMERICS='slow'; legal: fast, exact, shapes"):
        asked_numerics()
    with pytest.raises(BadInput, match="numerics ''"):
        checked("")


def test_stochastic_rounding_is_asked_for_by_awss_variable(monkeypatch):
    monkeypatch.delenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", raising=False)
    assert not asks_for_stochastic_rounding()
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1")
    assert asks_for_stochastic_rounding()
