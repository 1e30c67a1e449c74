from trnsim.fabric.transfers import Transfer, phase, side_by_side


def test_a_phase_counts_what_leaves_a_rank_in_every_repetition():
    made = phase([Transfer(0, 1, 10.0), Transfer(1, 1, 5.0), Transfer(2, 0, 1.5)], repeat=3)
    assert made.total_bytes == 3 * 11.5
    assert made.channels.tolist() == [0, 0, 0]


def test_groups_side_by_side_keep_their_phases():
    one = (phase([Transfer(0, 1, 4.0)], reads=2.0), phase([Transfer(1, 0, 8.0)], repeat=2))
    other = (phase([Transfer(2, 3, 4.0)], reads=2.0), phase([Transfer(3, 2, 8.0)], repeat=2))
    joined = side_by_side([one, other])
    assert [p.sources.tolist() for p in joined] == [[0, 2], [1, 3]]
    assert [p.repeat for p in joined] == [1, 2]
    assert joined[0].reads == 2.0
    assert side_by_side([one]) is one
