import pytest

from trnsim.system.links import Spread, exchange
from trnsim.system.train.exchanges import exchanges


@pytest.mark.parametrize("nbytes", [1 << 10, 3 << 20, 1.7e8])
@pytest.mark.parametrize("spread", [Spread(8), Spread(4, 16), Spread(4, 64)])
def test_between_two_sizes_a_time_is_what_asking_gives(nbytes, spread, trn2):
    asked = exchange("trn2.48xlarge", 2, "all_reduce", float(nbytes), spread).time_s
    found = exchanges(trn2).time_s("all_reduce", nbytes, spread)
    assert found == pytest.approx(asked, rel=0.02)


def test_more_bytes_take_longer(trn2):
    times = [exchanges(trn2).time_s("all_gather", 1.3**n, Spread(64)) for n in range(30, 90)]
    assert times == sorted(times)


def test_a_rank_alone_exchanges_nothing(trn2):
    assert exchanges(trn2).time_s("all_reduce", 1e9, Spread(1, 8)) == 0.0
    assert exchanges(trn2).time_s("all_reduce", 0.0, Spread(8)) == 0.0


def test_a_group_over_instances_goes_over_efa(trn2):
    assert exchanges(trn2).of("all_reduce", 1e6, Spread(4, 64)).level == "EFA"
    assert exchanges(trn2).of("all_reduce", 1e6, Spread(64)).level == "instance"
