from itertools import pairwise, permutations

import networkx as nx
import pytest

from trnsim.fabric.topology import Grid, Racks

TORUS = Grid((4, 4), (10.0, 10.0))
RING = Grid((12,), (10.0,))
CHAIN = Grid((5,), (10.0,), is_closed=False)
CUBE = Grid((4, 4, 4), (3.0, 10.0, 10.0))
RACKS = Racks(2, 3, 4, 256.0, 320.0, 128.0)
ALL = [TORUS, RING, CHAIN, CUBE, Grid((1,), (0.0,)), Grid((3, 5), (1.0, 2.0))]


def ends(topology, link):
    """The chips of a link, by its name."""
    words = topology.links[link].name.split()
    return int(words[1]), int(words[4])


def reference(grid):
    """The same graph by networkx."""
    made = nx.grid_graph(dim=grid.sizes[::-1], periodic=grid.is_closed)
    order = {place: number for number, place in enumerate(sorted(made.nodes))}
    return nx.relabel_nodes(made, order)


@pytest.mark.parametrize("grid", ALL, ids=str)
def test_links_are_the_connections_in_both_directions(grid):
    graph = reference(grid)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    wanted = {pair for edge in graph.edges for pair in (edge, edge[::-1])}
    assert {ends(grid, number) for number in range(len(grid.links))} == wanted
    assert len(grid.links) == len(wanted)


@pytest.mark.parametrize("grid", ALL, ids=str)
def test_a_route_is_a_shortest_way(grid):
    graph = reference(grid)
    for source, target in permutations(range(grid.chips), 2):
        passed = [ends(grid, link) for link in grid.route(source, target)]
        assert passed[0][0] == source
        assert passed[-1][1] == target
        assert all(one[1] == other[0] for one, other in pairwise(passed))
        assert len(passed) == nx.shortest_path_length(graph, source, target)
    assert grid.route(0, 0) == ()


def test_an_exchange_of_all_loads_every_link_of_a_torus_alike():
    passed = [link for pair in permutations(range(16), 2) for link in TORUS.route(*pair)]
    counts = {passed.count(link) for link in range(len(TORUS.links))}
    assert max(counts) <= 1.25 * sum(counts) / len(counts)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_square_torus_has_two_rings_that_share_no_connection(size):
    grid = Grid((size, size), (1.0, 1.0))
    rings = grid.cycles(range(grid.chips))
    edges = [
        frozenset(pair) for ring in rings for pair in zip(ring, (*ring[1:], ring[0]), strict=True)
    ]
    assert len(rings) == 2
    assert all(sorted(ring) == list(range(grid.chips)) for ring in rings)
    assert len(set(edges)) == len(edges) == 2 * grid.chips
    assert all(reference(grid).has_edge(*edge) for edge in edges)


@pytest.mark.parametrize(
    ("grid", "chips"),
    [(TORUS, (0, 1, 2, 3)), (TORUS, (0, 4, 5, 1)), (RING, range(12)), (TORUS, range(8))],
)
def test_a_ring_passes_neighbours_alone_where_it_can(grid, chips):
    (ring,) = grid.cycles(chips)
    assert sorted(ring) == sorted(chips)
    assert all(len(grid.route(*pair)) == 1 for pair in zip(ring, (*ring[1:], ring[0]), strict=True))


def test_a_ring_of_chips_that_are_no_neighbours_keeps_their_order():
    assert TORUS.cycles((0, 10, 3)) == [(0, 10, 3)]
    assert CHAIN.cycles(range(5)) == [(0, 1, 2, 3, 4)]
    assert TORUS.cycles((5,)) == [(5,)]


@pytest.mark.parametrize(
    ("grid", "chips", "count"),
    [(TORUS, range(16), 4), (CUBE, range(64), 6), (TORUS, (0, 1), 1), (TORUS, (0, 1, 4, 5), 2)],
)
def test_axes_of_a_hypercube_join_neighbours(grid, chips, count):
    axes = grid.axes(list(chips))
    assert len(axes) == count
    reached = {next(iter(chips))}
    for axis in axes:
        assert set(axis) == set(chips)
        assert all(axis[axis[chip]] == chip != axis[chip] for chip in axis)
        assert all(len(grid.route(chip, axis[chip])) == 1 for chip in axis)
        reached |= {axis[chip] for chip in reached}
    assert reached == set(chips)


@pytest.mark.parametrize("chips", [(0, 1, 2), (0, 2), (0, 5), (0, 1, 5), range(12)])
def test_other_groups_of_chips_are_no_hypercube(chips):
    assert TORUS.axes(list(chips)) == []


def test_racks_pass_the_nearest_switch():
    def names(*pair):
        return [RACKS.links[link].name for link in RACKS.route(*pair)]

    assert names(0, 3) == ["chip 0 to its server's switch", "server's switch to chip 3"]
    assert names(0, 4) == ["chip 0 to its rack's switch", "rack's switch to chip 4"]
    assert names(0, 12) == ["chip 0 to chip 12"]
    assert names(0, 16) == [*names(0, 4), "chip 4 to chip 16"]
    assert RACKS.chips == 24
    assert RACKS.chip_bytes_per_s == 256 + 320 + 128


def test_racks_have_axes_for_powers_of_two():
    assert len(RACKS.axes(range(8))) == 3
    assert RACKS.axes(range(24)) == []
    assert RACKS.cycles(range(3)) == [(0, 1, 2)]


def test_what_leaves_a_chip():
    assert TORUS.chip_bytes_per_s == 40
    assert CUBE.chip_bytes_per_s == 2 * (3 + 10 + 10)
    assert Grid((1,), (0.0,)).chip_bytes_per_s == 0
