import plans


def test_a_group_knows_its_chips_and_instances():
    one = plans.group((0, 1, 4, 5))
    assert one.chips == (0, 1)
    assert one.per_chip == 2
    assert one.is_local
    assert one.ranks_on(1) == (4, 5)
    assert plans.group((0, 1, 4)).per_chip == 0
    two = plans.group((0, 64, 65), plans.TWO)
    assert two.by_node == {0: (0,), 1: (64, 65)}
    assert not two.is_local


def test_rings_pass_every_rank_in_both_directions():
    rings = plans.group().cycles()
    assert len(rings) == 4
    assert all(sorted(ring) == list(range(64)) for ring in rings)
    assert len(plans.group(range(4)).cycles()) == 1
    assert len(plans.group(range(8)).cycles()) == 2
