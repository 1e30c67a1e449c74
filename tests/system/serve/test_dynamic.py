"""The steps of a replica whose sequences share blocks."""

from replica_cases import replica, sequence


def test_what_has_to_go_for_blocks_is_what_began_last():
    one = replica(is_compiled=False, longest=256, blocks=16, max_num_batched_tokens=512)
    one.add(sequence(0, 100, 100))
    one.add(sequence(1, 100, 100))
    now_s = 0.0
    while not one.preemptions:
        now_s = one.plan(now_s)[0]
        one.complete(now_s)
    assert [left.index for left in one.waiting_sequences] == [1]
    assert (
        one.waiting_sequences[0].prompt_tokens == 128
    )  # with what it has got until then: eight blocks each


def test_prompts_take_what_decodes_leave_of_a_step():
    one = replica(is_compiled=False, sequences=8, longest=256, max_num_batched_tokens=110)
    one.add(sequence(0, 100, 9))
    one.complete(one.plan(0.0)[0])
    one.add(sequence(1, 200, 9))
    now_s = 1.0
    for _ in range(2):
        now_s = one.plan(now_s)[0]
        one.complete(now_s)
    # A token of the first, and 109 of the second's prompt; then the rest of it.
    assert now_s == 1.0 + 2 * 1.125
    assert one.decodes == {(1, 96): 2}
