"""Groups and pairs of ranks."""

import json

import pytest

from trnsim.errors import BadInput, Unspecified
from trnsim.tools.nccom.operations import operation
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.ranks import groups_of, pairs_of
from trnsim.tools.nccom.times import fabric_of


def options(**stated):
    return OperationOptions(operation="permute", **stated)


@pytest.fixture
def grouped(tmp_path):
    def groups(content, ranks=8):
        path = tmp_path / "groups.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return groups_of(options(custom_replica_groups=path), ranks)

    return groups


@pytest.fixture
def paired(tmp_path):
    def pairs(content, fabric=None, name="permute"):
        path = tmp_path / "pairs.json"
        path.write_text(json.dumps({"src_target_pairs": content}))
        fabric = fabric or fabric_of("trn2.48xlarge", 2, 1, 8)
        stated = options(custom_src_target_pairs=path)
        return pairs_of(stated, operation(name), fabric, (tuple(range(fabric.ranks)),))

    return pairs


def test_all_ranks_are_a_group_without_an_option():
    assert groups_of(options(), 4) == ((0, 1, 2, 3),)


def test_a_data_parallel_group_has_a_rank_of_each_instance():
    """nccom-test.rst: 128 ranks and a dimension of 2 are 64 groups of 2 ranks."""
    groups = groups_of(options(data_parallel_dimension=2), 128)
    assert len(groups) == 64
    assert groups[0] == (0, 64)
    assert sorted(rank for group in groups for rank in group) == list(range(128))
    assert groups_of(options(data_parallel_dimension=8), 8) == (tuple(range(8)),)


@pytest.mark.parametrize("size", [0, 1, 3, 16])
def test_a_dimension_that_divides_no_ranks_is_refused(size):
    with pytest.raises(BadInput, match=rf"dimension {size} of 8 ranks; legal: 2, 4, 8"):
        groups_of(options(data_parallel_dimension=size), 8)


def test_a_file_names_groups(grouped):
    assert grouped({"replica_groups": [[[0, 2], [1, 3]]]}) == ((0, 2), (1, 3))  # not all ranks


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"replica_groups": [[[0, 8]]]}, r"groups\.json:1: .*rank 8; legal: 0 to 7 \(--nworkers"),
        ({"replica_groups": [[[0, 1], [1, 2]]]}, r"rank 1 stands twice; legal: once"),
        ({"replica_groups": [[[0, 0]]]}, r"rank 0 stands twice"),
        ({"replica_groups": [[[0, 1], [2, 3, 4]]]}, r"groups of 2, 3 ranks; legal: of one size"),
        ({"replica_groups": [[[0], [1]]]}, r"groups of 1 rank, which have nothing to send"),
        ({"replica_groups": [[[0, -1]]]}, r"replica_groups\[0\]\[0\]\[1\] is -1; legal"),
        ({"replica_groups": [[[]]]}, r"0 items"),
        ({"replica_groups": []}, r"0 items"),
        ({"replica_groups": [[0, 1]]}, r"replica_groups\[0\]\[0\] is 0; legal: a list"),
        ({"groups": []}, r"the field 'groups' is not known; legal: replica_groups"),
        ({}, r"replica_groups is missing"),
        ("[", r"groups\.json:1: "),
        ("", r"the file is empty"),
    ],
)
def test_a_file_without_groups_is_refused(grouped, content, reason):
    with pytest.raises(BadInput, match=reason):
        grouped(content)


def test_several_lists_of_groups_have_no_documented_meaning(grouped):
    with pytest.raises(Unspecified, match=r"2 lists of groups; legal here: one"):
        grouped({"replica_groups": [[[0, 1]], [[2, 3]]]})


def test_a_file_names_pairs(paired):
    """The pairs of AWS's example: rings of two, and ranks that send to themselves."""
    pairs = [[0, 1], [1, 0], [2, 3], [3, 2], [4, 4], [5, 5], [6, 6], [7, 7]]
    assert paired([pairs]) == tuple(map(tuple, pairs))


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([[0, 1]], r"the pairs make no rings; legal: each rank that sends also receives"),
        ([[0, 1], [0, 2]], r"no rings"),
        ([[0, 1], [2, 1]], r"no rings"),
        ([[0, 1, 2]], r"pair 0 has 3 ranks; legal: source and target"),
        ([[0, 8], [8, 0]], r"rank 8; legal: 0 to 7"),
    ],
)
def test_pairs_that_are_no_rings_are_refused(paired, pairs, reason):
    with pytest.raises(BadInput, match=reason):
        paired([pairs])


def test_pairs_on_chips_without_a_connection_are_refused(paired):
    whole = fabric_of("trn2.48xlarge", 2, 1, 64)  # 4 x 4 chips of 4 ranks
    assert paired([[[0, 4], [4, 0]]], whole)  # neighbours
    with pytest.raises(BadInput, match=r"ranks 0 and 8 are on chips without a connection"):
        paired([[[0, 8], [8, 0]]], whole)


def test_pairs_are_of_permute_alone(paired):
    with pytest.raises(BadInput, match=r"--custom-src-target-pairs of sendrecv; legal: of permute"):
        paired([[[0, 1], [1, 0]]], name="sendrecv")


def test_without_a_file_each_rank_sends_to_the_next():
    fabric = fabric_of("trn2.48xlarge", 2, 1, 64)
    groups = (tuple(range(64)),)
    around = pairs_of(options(), operation("sendrecv"), fabric, groups)
    assert around == tuple((rank, (rank + 1) % 64) for rank in range(64))
    ring = pairs_of(options(), operation("permute"), fabric, groups)
    assert sorted(source for source, _ in ring) == sorted(t for _, t in ring) == list(range(64))
    assert all(fabric.is_direct(*pair) for pair in ring)
    assert pairs_of(options(), operation("allr"), fabric, groups) == ()
