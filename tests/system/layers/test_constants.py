from dataclasses import fields

from trnsim.facts import Rate
from trnsim.system.layers import constants
from trnsim.system.workload.operators import Phase


def test_every_phase_has_constants_with_a_source():
    assert set(constants.NEURON) == set(Phase)
    for found in constants.NEURON.values():
        rates = [getattr(found, one.name) for one in fields(found)]
        assert all(one.provenance.source for one in rates if isinstance(one, Rate))
        assert 0 < found.spread < 1
        assert found.rows


def test_products_never_beat_the_peak():
    parts = [one.products for one in constants.NEURON.values()]
    assert all(0 < part < 1 for part in parts)
