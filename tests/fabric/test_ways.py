import pytest

from trnsim.errors import BadInput
from trnsim.fabric.topology import Grid
from trnsim.fabric.ways import Routes, adapters_of_chips

RING = Grid((6,), (1.0,))
NAMES = [link.name for link in RING.links]


def way(dead, *pair):
    ways = Routes(RING, {NAMES.index(name) for name in dead})
    return [NAMES[link] for link in ways[pair]]


def test_a_way_is_the_topologys_where_nothing_is_dead():
    assert way([], 0, 2) == ["chip 0 to chip 1", "chip 1 to chip 2"]
    assert way(["chip 2 to chip 1"], 0, 2) == way([], 0, 2)


def test_a_way_goes_round_the_other_side():
    others = ["chip 0 to chip 5", "chip 5 to chip 4", "chip 4 to chip 3", "chip 3 to chip 2"]
    assert way(["chip 1 to chip 2"], 0, 2) == others
    with pytest.raises(BadInput, match="no way is left from chip 0 to chip 2: every link") as error:
        way(["chip 1 to chip 2", "chip 4 to chip 3"], 0, 2)
    assert error.value.fix.startswith("leave one of the links")


@pytest.mark.parametrize(
    ("chips", "adapters", "dead", "found"),
    [
        (4, 4, (), (0, 1, 2, 3)),
        (4, 2, (), (0, 0, 1, 1)),
        (2, 4, (), (0, 2)),
        (4, 4, (1, 2), (0, 3, 3, 3)),
        (4, 4, (0, 3), (1, 1, 2, 1)),
        (4, 0, (), ()),
    ],
)
def test_chips_pass_through_their_adapter_or_the_next(chips, adapters, dead, found):
    assert adapters_of_chips(chips, adapters, dead, "out") == found


def test_an_instance_without_an_adapter_that_is_alive_has_no_way_out():
    with pytest.raises(BadInput, match="no way is left out of it: all of its 2 EFA adapters are"):
        adapters_of_chips(4, 2, {0, 1}, "out of it")
