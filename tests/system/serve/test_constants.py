import pytest

from trnsim.facts import Evidence
from trnsim.place.machine import machine
from trnsim.system.serve import constants


def test_the_host_is_assumed_and_said_to_be():
    for on, least in (("trn2", 0.0), ("p5en", 1e-4)):
        host = constants.host_times(machine(on))
        assert host.step_s >= least
        assert {fact.provenance.kind for fact in host.facts.values()} == {Evidence.ASSUMED}
    assert constants.LOAD_BYTES_PER_S.provenance.kind is Evidence.DERIVED


def test_a_host_that_is_hidden_is_hidden_for_every_sequence():
    neuron, gpu = (constants.host_times(machine(on)) for on in ("trn2", "p5en"))
    assert neuron.step_overhead_s(64) == 0
    assert gpu.step_overhead_s(64) == pytest.approx(1e-3 + 64 * 10e-6)
    assert "host s of a sequence" in gpu.facts
    assert "host s of a sequence" not in neuron.facts


def test_a_port_has_a_host_that_nothing_hides():
    host = constants.host_times(machine("trn2"), is_ported=True)
    assert host.step_overhead_s(1) == pytest.approx(22.2e-3 - 20.5e-3)
    assert host.step_s.provenance.kind is Evidence.DERIVED


def test_the_users_seconds_are_those_of_all_sequences_and_certain():
    host = constants.user_host_times(2e-3)
    assert host.step_overhead_s(100) == 2e-3
    assert host.step_s.provenance.spread == 0
    assert host.request_overhead_s(1000) == pytest.approx(3e-3)
