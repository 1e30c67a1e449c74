import pytest

from trnsim.place.links import Spread, exchange
from trnsim.system.train.exchanges import exchanges


def test_it_is_that_of_the_links(trn2):
    found = exchanges(trn2).time_s("all_reduce", 1e7, Spread(4, 64))
    assert found == exchange("trn2.48xlarge", 2, "all_reduce", 1e7, Spread(4, 64)).time_s > 0


@pytest.mark.parametrize("spread", [Spread(64), Spread(4, 64)])
def test_more_bytes_take_longer(spread, trn2):
    times = [exchanges(trn2).time_s("all_gather", 1.3**n, spread) for n in range(30, 90)]
    assert times == sorted(times)


def test_a_rank_alone_exchanges_nothing(trn2):
    assert exchanges(trn2).time_s("all_reduce", 1e9, Spread(1, 8)) == 0.0
    assert exchanges(trn2).time_s("all_reduce", 0.0, Spread(8)) == 0.0
