"""One job against many."""

import pytest

from trnsim.system.fleet.scenario import Fleet
from trnsim.system.fleet.splitting import splits
from trnsim.system.train.run import CHIP_MTBF_S


def test_one_job_of_half_a_million_chips_loses_most_of_its_time():
    fleet = Fleet(64, 16, {str(at): 260 for at in range(30)}, {}, CHIP_MTBF_S, 86400, 1.0)
    found = {one.jobs: one for one in splits(fleet)}
    assert list(found) == [1, 2, 4, 5, 10, 30, 100, 7800]
    assert found[1].chips == 499_200
    assert found[1].goodput.mtbf_s / 60 == pytest.approx(6.1, abs=0.05)
    assert found[1].goodput.kept_fraction == pytest.approx(0.371, abs=0.005)
    assert found[30].chips == 16_640
    assert found[30].goodput.kept_fraction == pytest.approx(0.945, abs=0.005)
    goodputs = [one.goodput.goodput for one in found.values()]
    assert goodputs == sorted(goodputs)


def test_a_small_fleet_is_split_into_whole_ultraservers():
    fleet = Fleet(16, 16, {"a": 3}, {}, CHIP_MTBF_S, 86400, 1.0)
    assert [(one.jobs, one.chips) for one in splits(fleet)] == [(1, 48), (3, 16)]
