"""Worlds of ranks: turns, rendezvous, who waits for whom."""

from functools import partial

import numpy as np
import pytest

from trnsim.errors import Deadlock, IllegalInstruction
from trnsim.fabric.fabric import fabric
from trnsim.isa.language.meeting import Exchange
from trnsim.program.ranks import Ranks


def world(count, lnc=1):
    return Ranks(fabric("trn2.48xlarge", lnc=lnc), count)


def summed(sent):
    total = sum(array[0] for array in sent)
    return [[total]] * len(sent)


def met(link, ranks, value, at="sum", *, is_joint=True):
    return int(link.exchange(Exchange(at, ranks, is_joint, lambda: [np.array(value)], summed))[0])


def run(bodies, order=None):
    ranks = world(len(bodies))
    if order is not None:
        ranks.order = order
    links = [
        ranks.member(rank).link(0, ranks.member(rank).wait_alone) for rank in range(len(bodies))
    ]
    return ranks.run(
        [lambda b=body, at=link: b(at) for body, link in zip(bodies, links, strict=True)]
    )


@pytest.mark.parametrize("order", [None, [3, 1, 0, 2], [2, 3, 1, 0]])
def test_each_member_receives_what_the_group_makes_whatever_the_order(order):
    def body(link):
        first = met(link, (link.rank % 2, link.rank % 2 + 2), link.rank)
        return met(link, (0, 1, 2, 3), first)

    assert run([body] * 4, order) == [12] * 4


def test_a_rank_alone_waits_for_nobody():
    assert run([lambda link: met(link, (0,), 5)]) == [5]


def test_ranks_that_wait_for_ever_are_named_with_what_they_wait_in():
    def body(link):
        met(link, (0, 1, 2, 3), 1)
        if link.rank == 3:
            return
        met(link, (0, 1, 2, 3), 1, "gather" if link.rank == 1 else "sum")

    with pytest.raises(Deadlock) as caught:
        run([body] * 4)
    text = caught.value.reason
    assert "ranks 0, 2 wait in sum at " in text
    assert "rank 1 waits in gather at " in text
    assert "rank 3 has ended" in text
    assert "test_ranks.py" in str(caught.value.line)


def test_groups_that_differ_never_meet():
    with pytest.raises(Deadlock, match="ranks 0-1 wait in sum"):
        run([lambda link: met(link, (0, 1), 1), lambda link: met(link, (1, 0), 1)])


def test_the_first_error_stands_and_the_others_are_stopped():
    stopped = []

    def body(link):
        if link.rank == 2:
            raise IllegalInstruction("wrong")
        try:
            met(link, (0, 1, 2, 3), 1)
        finally:
            stopped.append(link.rank)

    with pytest.raises(IllegalInstruction, match="wrong") as caught:
        run([body] * 4)
    assert caught.value.__notes__ == ["on rank 2 of 4"]
    assert stopped == [0, 1]  # rank 3 never began


def test_an_error_of_python_names_the_rank():
    def body(link):
        return 1 // (1 - link.rank)

    with pytest.raises(ZeroDivisionError) as caught:
        run([body] * 2)
    assert caught.value.__notes__ == ["on rank 1 of 2"]


def test_an_error_in_the_results_is_of_the_whole_group():
    def refuse(_sent):
        raise IllegalInstruction("does not fit")

    def body(link):
        link.exchange(Exchange("sum", (0, 1), True, lambda: [np.array(1)], refuse))

    for order in ([0, 1], [1, 0]):
        with pytest.raises(IllegalInstruction, match="does not fit") as caught:
            run([body] * 2, order)
        assert caught.value.__notes__ == ["on ranks 0-1 of 2"]


def test_the_cores_of_a_rank_offer_one_value_and_both_take_the_result():
    ranks = world(2, lnc=2)
    joined = []
    for rank in (0, 1):
        ranks.member(rank).on_join = lambda rank=rank: joined.append(rank)
    joint = Exchange("sum", (0, 1), True, lambda: [np.array(1)], summed)
    arrived = [ranks.arrive(core, joint) for core in (0, 1, 3, 2)]
    assert arrived == [False, False, False, True]
    assert [int(ranks.take(core)[0]) for core in range(4)] == [2] * 4
    assert joined == [0, 1]


def test_cores_of_one_number_exchange_where_the_tensors_are_their_own():
    ranks = world(2, lnc=2)
    for rank in (0, 1):
        ranks.member(rank)
    values = [[np.array(core)] for core in range(4)]
    own = [Exchange("sum", (0, 1), False, partial(list, one), summed) for one in values]
    assert [ranks.arrive(core, own[core]) for core in range(4)] == [False, False, True, True]
    assert [int(ranks.take(core)[0]) for core in range(4)] == [2, 4, 2, 4]


def classes(of, *exchanges):
    """Worlds of four ranks in classes, in which those that run come to `exchanges`."""
    ranks = Ranks(fabric("trn2.48xlarge"), 4, of)
    firsts = [ranks.member(one[0]) for one in of]

    def body(member):
        link = member.link(0, member.wait_alone)
        found = []
        for groups in exchanges:
            group = next(group for group in groups if link.rank in group)
            empty = lambda sent: [()] * len(sent)  # noqa: E731
            link.exchange(Exchange("sum", group, True, list, empty, groups))
            found.append(group)
        return found

    return ranks, ranks.run([lambda one=one: body(one) for one in firsts])


EVERYONE = ((0, 1, 2, 3),)
PAIRS = ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("of", "groups", "differs"),
    [
        ([(0, 1, 2, 3)], EVERYONE, False),
        ([(0, 1, 2, 3)], PAIRS, False),
        ([(0, 2), (1, 3)], EVERYONE, False),
        ([(0, 1), (2, 3)], PAIRS, False),
        ([(0, 2), (1, 3)], PAIRS, True),
        ([(0, 1, 2), (3,)], PAIRS, True),
        ([(0,), (1,), (2,), (3,)], PAIRS, False),
    ],
)
def test_those_that_run_meet_for_their_classes(of, groups, differs):
    ranks, found = classes(of, groups)
    assert ranks.differs is differs
    assert found == [[next(g for g in groups if one[0] in g)] for one in of]


def test_a_number_that_is_read_makes_a_class_differ():
    for of, differs in (([(0, 1, 2, 3)], True), ([(0,), (1,), (2,), (3,)], False)):
        ranks = Ranks(fabric("trn2.48xlarge"), 4, of)
        link = ranks.member(0).link(0, ranks.member(0).wait_alone)
        assert link.is_among({0, 1, 2, 3})
        assert not link.is_among(())
        assert not ranks.differs
        link.number_was_read()
        assert ranks.differs is differs


def test_a_class_of_which_some_are_among_others_differs():
    ranks = Ranks(fabric("trn2.48xlarge"), 4, [(0, 2), (1, 3)])
    assert ranks.is_among(0, {0, 2})
    assert not ranks.differs
    assert ranks.is_among(0, {0, 1})
    assert ranks.differs
