import pytest

from trnsim.fabric.closed_form import loads, phase_s, time_s
from trnsim.fabric.fabric import fabric
from trnsim.fabric.transfers import Transfer, phase

TRN1 = fabric("trn1.32xlarge")


def test_a_phase_lasts_as_long_as_its_busiest_resource():
    both = phase([Transfer(0, 2, 1e9), Transfer(1, 3, 2e9)])
    link = TRN1.names.index("chip 0 to chip 1")
    assert loads(TRN1, both)[link] == 3e9
    assert phase_s(TRN1, both) == pytest.approx(3e9 / (48 * 2**30))


def test_phases_follow_each_other():
    one, other = phase([Transfer(0, 2, 1e9)], repeat=3), phase([Transfer(2, 0, 5e8)])
    wanted = TRN1.start_s + 3 * phase_s(TRN1, one) + phase_s(TRN1, other)
    assert time_s(TRN1, (one, other)) == pytest.approx(wanted)
    assert time_s(TRN1, ()) == 0
