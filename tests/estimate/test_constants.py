from dataclasses import fields

import pytest

from trnsim.estimate import constants
from trnsim.facts import Rate
from trnsim.workload.operators import Phase


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_constants_with_a_source(phase):
    found = constants.NEURON[phase]
    rates = [getattr(found, one.name) for one in fields(found)]
    assert all(one.provenance.source for one in rates if isinstance(one, Rate))
    assert 0 < found.spread < 1
    assert found.rows


def test_products_never_beat_the_peak():
    parts = [one.products for one in constants.NEURON.values()]
    assert all(0 < part < 1 for part in parts)
