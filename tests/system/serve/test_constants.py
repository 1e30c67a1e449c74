import pytest

from trnsim.facts import Evidence
from trnsim.system.serve import constants
from trnsim.system.serve.machine import machine


@pytest.mark.parametrize("on", ["trn1", "trn2", "inf2", "inf1.xlarge", "p5en"])
def test_times_of_layers_are_of_one_rank(on):
    where = machine(on)
    found = constants.layer_times(where)
    per_rank = float(where.chip.memory_bytes_per_s) / where.ranks_per_chip
    assert 0 < found.bytes_per_s < per_rank
    assert found.fixed_s > 0
    assert found.spread > 0


def test_a_chip_without_published_decodes_is_less_certain():
    own, other = (constants.layer_times(machine(on)).spread for on in ("trn1", "trn2"))
    assert own < other


def test_the_host_is_assumed_and_said_to_be():
    for on, least in (("trn2", 0.0), ("p5en", 1e-4)):
        fact = constants.host_s(machine(on))
        assert fact >= least
        assert fact.provenance.kind is Evidence.ASSUMED
    assert constants.LOAD_BYTES_PER_S.provenance.kind is Evidence.DERIVED
