"""The steps of a replica whose batches and buckets are compiled."""

from replica_cases import replica, sequence


def test_equal_steps_are_made_at_once_until_a_bucket_is_full():
    one = replica()
    one.add(sequence(0, 100, 60))
    assert one.plan(0.0)[0] == 1.0
    first, ended = one.complete(1.0)
    assert ([made[0].index for made in first], ended) == ([0], [])
    # Steps that meet 101 to 128 keys, then those of the next bucket to the end.
    assert one.plan(1.0)[0] == 1.0 + 28 * 0.125
    one.complete(4.5)
    assert one.plan(4.5)[0] == 4.5 + 31 * 0.125
    assert one.decodes == {(4, 128): 28, (4, 256): 31}


def test_sequences_take_a_step_between_two_prompts():
    one = replica(prompts_at_once=1, is_alternating=True)
    for place in range(2):
        one.add(sequence(place, 100, 60))
    ends = []
    now_s = 0.0
    for _ in range(3):
        now_s = one.plan(now_s)[0]
        one.complete(now_s)
        ends.append(now_s)
    assert ends == [1.0, 1.125, 2.125]
