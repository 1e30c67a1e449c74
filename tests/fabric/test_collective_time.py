import pytest

from trnsim.errors import BadInput
from trnsim.fabric.collective_time import (
    collective_time,
    constants_of,
    fabric_for,
    time_on,
    transfers_time,
)
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.fabric.transfers import Transfer

GIB = 1 << 30


@pytest.mark.parametrize(
    ("chip", "ranks", "lnc", "instance", "nodes"),
    [
        ("trainium1", 2, 1, "trn1.2xlarge", 1),
        ("trainium1", 3, 1, "trn1.32xlarge", 1),
        ("trainium1", 64, 1, "trn1.32xlarge", 2),
        ("inferentia2", 24, 1, "inf2.48xlarge", 1),
        ("trainium2", 4, 2, "trn2.3xlarge", 1),
        ("trainium2", 64, 2, "trn2.48xlarge", 1),
        ("trainium2", 256, 2, "Trn2 UltraServer (u-trn2x64)", 1),
        ("trainium2", 257, 2, "trn2.48xlarge", 5),
    ],
)
def test_ranks_lie_on_the_smallest_instance_that_has_them(chip, ranks, lnc, instance, nodes):
    found = fabric_for(chip, ranks, lnc)
    assert (found.instance.name, found.nodes) == (instance, nodes)


def test_an_instance_can_be_named(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    assert "2 x trn2.48xlarge" in collective_time("all_reduce", GIB, 128, "trn2").origin
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.2xlarge")
    with pytest.raises(BadInput, match=r"trn1\.2xlarge has trainium1; this runs on trainium2"):
        collective_time("all_reduce", GIB, 2, "trn2")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"chip": "trn9"}, r"target 'trn9' is not known; legal: "),
        ({"nbytes": -1}, r"a collective of -1 bytes; legal: a number from 0"),
        ({"nbytes": float("nan")}, r"a collective of nan bytes; "),
        ({"groups": []}, r"a collective without groups of ranks; legal: 1 and more"),
        ({"groups": 0}, r"a collective of ranks \[\]; legal: different ranks from 0"),
        ({"groups": [(0, 0)]}, r"a collective of ranks \[0, 0\]; "),
        ({"groups": [(-1, 0)]}, r"a collective of ranks \[-1, 0\]; "),
        ({"lnc": 3}, r"lnc=3 on trn2; legal: 1 to 2, and 0 for 2"),
    ],
)
def test_a_collective_that_cannot_be_is_refused(given, message):
    usual = {"kind": "all_reduce", "nbytes": 8, "groups": 2, "chip": "trn2"}
    with pytest.raises(BadInput, match=f"^{message}"):
        collective_time(**{**usual, **given})
    assert collective_time("all_reduce", 8, 2, "gen3") == collective_time(
        "all_reduce", 8, 2, "trn2"
    )


@pytest.mark.parametrize(
    ("chip", "ranks", "nbytes", "published_s"),
    [
        ("trn1", 2, GIB, 18_930e-6),
        ("trn1", 2, 268_435_456, 4_750e-6),
        ("trn1", 2, 67_108_864, 1_214e-6),
        ("trn2", 32, 1_024, 6.16e-6),
        ("trn2", 32, 65_536, 8.17e-6),
    ],
)
def test_published_collectives(chip, ranks, nbytes, published_s):
    """nccom-test.rst; in sample for the first and the fourth."""
    kind = "all_reduce" if chip == "trn1" else "all_gather"
    assert collective_time(kind, nbytes, ranks, chip).time_s == pytest.approx(published_s, rel=0.25)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3", "inf2"])
def test_no_time_is_below_its_bound(kind, chip):
    for ranks in (2, 3, 8, 16, 24):
        for nbytes in (1, 1 << 20, GIB):
            found = collective_time(kind, nbytes, ranks, chip)
            assert found.time_s > found.least_s >= 0


def test_the_bound_is_what_leaves_a_chip_over_its_links():
    found = collective_time("all_reduce", GIB, 64, "trn2")
    assert found.least_s == pytest.approx(2 * GIB * 15 / 16 / 512e9)
    assert collective_time("all_to_all", GIB, 64, "trn2").least_s == pytest.approx(
        4 * GIB * 15 / 16 / 512e9
    )
    assert collective_time("all_reduce", GIB, 4, "trn2").least_s == 0  # one chip


def test_the_origin_names_algorithm_place_and_sources():
    origin = collective_time("all_gather", 1024, 64, "trn2").origin
    assert origin.startswith("mesh on 1 x trn2.48xlarge, inside a program; ")
    assert "trn2-arch" in origin
    assert "intranode-collective-comm.rst" in origin


def test_ranks_may_be_named():
    near = collective_time("send", GIB, [(0, 4)], "trn2").time_s
    far = collective_time("send", GIB, [(0, 64 + 4)], "trn2").time_s
    assert far > near


@pytest.mark.parametrize(
    ("ranks", "per_node", "first", "instance", "nodes", "last"),
    [
        (8, 4, 0, "trn2.48xlarge", 2, (1, 0, 3)),
        (8, 8, 0, "trn2.48xlarge", 1, (0, 1, 3)),
        (4, 4, 0, "trn2.3xlarge", 1, (0, 0, 3)),
        (4, 4, 2, "trn2.48xlarge", 1, (0, 1, 1)),  # beyond the last core of the smallest
        (9, 4, 60, "trn2.48xlarge", 3, (2, 15, 0)),
    ],
)
def test_ranks_of_a_node_place_all_ranks(ranks, per_node, first, instance, nodes, last):
    found = fabric_for("trainium2", ranks, 2, ranks_per_node=per_node, first=first)
    assert (found.instance.name, found.nodes) == (instance, nodes)
    assert found.place(ranks - 1) == last


def test_groups_that_lie_differently_take_an_algorithm_each():
    near, far = [0, 1], [2, 4]
    both = collective_time("all_gather", GIB, [near, far], "trn2").time_s
    alone = [collective_time("all_gather", GIB, [one], "trn2").time_s for one in (near, far)]
    assert both == max(alone) > min(alone)


@pytest.mark.parametrize("chip", ["trainium1", "trainium2"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_constants_are_those_that_the_time_is_made_of(chip, nodes):
    made = fabric_for(chip, nodes * 2, 1, ranks_per_node=2) if nodes > 1 else fabric_for(chip, 2, 1)
    found = constants_of(made)
    assert float(found["collective_start_s"]) == made.start_s
    engines = found["collective_rank_bytes_per_s"]
    assert float(engines) == made.capacity[made.names.index(_first(made, "DMA"))]
    assert float(found["collective_hbm_bytes_per_s"]) in made.capacity
    assert ("collective_efa_hop_s" in found) == (made.nodes > 1)
    moved = {name for name in found if name.endswith("bytes_per_s")}
    assert set(found) - set(constants_of(made, has_bytes=False)) == moved


def _first(made, word):
    return next(name for name in made.names if word in name)


@pytest.mark.parametrize("floor", Floor)
@pytest.mark.parametrize(
    ("instance", "lnc", "nodes"), [("trn1.32xlarge", 1, 2), ("trn2.48xlarge", 2, 1)]
)
def test_transfers_around_a_ring_are_a_permute(instance, lnc, nodes, floor):
    where = fabric(instance, lnc=lnc, nodes=nodes)
    ring = range(where.ranks)
    sent = [Transfer(rank, (rank + 1) % where.ranks, float(GIB)) for rank in ring]
    by_transfer = transfers_time(where, "permute", GIB, [ring], sent, floor)
    as_collective = time_on(where, "permute", GIB, [ring], floor)
    assert by_transfer.time_s == as_collective.time_s
    assert by_transfer.origin == as_collective.origin
    assert 0 < by_transfer.least_s <= by_transfer.time_s


def test_transfers_of_nothing_take_the_start_alone():
    where = fabric("trn1.32xlarge")
    silent = [Transfer(0, 1, 0.0)]
    assert transfers_time(where, "permute", 8, [(0, 1)], silent).time_s == 0
    started = transfers_time(where, "permute", 8, [(0, 1)], silent, Floor.HOST)
    assert started.time_s == pytest.approx(54.8e-6, rel=0.01)  # base and a step
    assert started.least_s == 0
    assert (
        transfers_time(where, "permute", 8, [(0, 1)], [Transfer(0, 1, 8.0)]).least_s == 0
    )  # a chip
