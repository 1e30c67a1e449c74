"""Ranks as threads, and a dictionary as the store that they share."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from trnsim.device import agreement, alive
from trnsim.device.agreement import Agreement, CallArguments, disagreement

ADD = CallArguments("allreduce", "float32[4]", line="a.py:1")


class Shared(dict):
    def set(self, key, value):
        self[key] = value

    def check(self, keys):
        return all(key in self for key in keys)

    def multi_get(self, keys):
        return [self[key].encode() for key in keys]

    def compare_set(self, key, expected, desired):
        assert expected == desired  # it is a question, which changes nothing
        return self.get(key, expected).encode()

    def delete_key(self, key):
        return self.pop(key, None) is not None


class Vanishing(Shared):
    """What was said of messages is gone whenever one has looked whether it is there."""

    def check(self, keys):
        found = super().check(keys)
        for key in keys:
            if ">" in key:
                self.pop(key, None)
        return found


def together(*bodies, store=None):
    """What `body(agreement of its rank)` gives, of all bodies at once."""
    store = Shared() if store is None else store
    ranks = [Agreement(store, rank, len(bodies)) for rank in range(len(bodies))]
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body, one: body(one), bodies, ranks, timeout=10))


def meeting(passed, group="0", ranks=(0, 1)):
    return lambda one: one.meet(group, ranks, passed)


def test_ranks_that_pass_the_same_meet_as_often_as_they_like():
    def body(one):
        return [one.meet("0", (0, 1, 2), ADD) for _ in range(50)]

    assert together(body, body, body) == [[None] * 50] * 3


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (CallArguments("allgather", "float32[4]", line="b.py:2"), "allreduce beside allgather"),
        (CallArguments("allreduce", "float32[5]", line="b.py:2"), "allreduce of different tensors"),
        (
            CallArguments("allreduce", "bfloat16[4]", line="b.py:2"),
            "allreduce of different tensors",
        ),
        (
            CallArguments("allreduce", "float32[4]", root=1, line="b.py:2"),
            "allreduce from different root",
        ),
    ],
)
def test_ranks_that_pass_different_things_are_named_with_lines(other, reason):
    for failure in together(meeting(ADD, ranks=(0, 1, 2)), *[meeting(other, ranks=(0, 1, 2))] * 2):
        assert failure.reason.startswith(f"{reason}")
        assert "ranks [0, 1, 2] meet, and passed\n  rank 0: " in failure.reason
        assert "rank 0: allreduce float32[4] at a.py:1" in failure.reason
        assert f"\n  ranks 1-2: {other}" in failure.reason
        assert "at b.py:2" in failure.reason
        assert "same calls, in one order" in failure.fix
        assert failure.ended_ranks == ()


def test_lines_alone_may_differ():
    elsewhere = CallArguments("allreduce", "float32[4]", line="b.py:2")
    assert together(meeting(ADD), meeting(elsewhere)) == [None, None]


def exchange(sends, receives):
    return CallArguments(
        "alltoall", "float32", send_counts=sends, receive_counts=receives, line="a.py:3"
    )


def test_what_one_sends_the_other_must_receive():
    fits = {0: exchange((1, 2), (1, 3)), 1: exchange((3, 0), (2, 0))}
    assert disagreement(fits) is None
    failure = disagreement(fits | {1: exchange((4, 0), (2, 0))})
    assert failure.reason.startswith(
        "alltoall: rank 1 sends 4 elements to rank 0, which receives 3 from it; passed were\n"
        "  rank 0: alltoall float32 sends [1, 2] receives [1, 3] at a.py:3"
    )
    even = exchange((2, 2), (2, 2))
    assert together(meeting(even), meeting(even)) == [None, None]
    assert together(meeting(even), meeting(exchange((2, 1), (2, 2))))[0] is not None


def test_ranks_that_wait_for_each_other_in_a_circle_are_named():
    pairs = [(0, 1), (1, 2), (0, 2)]
    bodies = [meeting(ADD, str(at), ranks) for at, ranks in enumerate(pairs)]
    for failure in together(*bodies):
        assert failure.reason == (
            "ranks [0, 1, 2] wait for each other in different collectives\n"
            "  rank 0: allreduce float32[4] at a.py:1, collective 1 of group 0 of ranks [0, 1]\n"
            "  rank 1: allreduce float32[4] at a.py:1, collective 1 of group 1 of ranks [1, 2]\n"
            "  rank 2: allreduce float32[4] at a.py:1, collective 1 of group 2 of ranks [0, 2]"
        )


@pytest.mark.parametrize("late", [0, 1])
def test_ranks_that_go_on_after_a_circle_do_not_meet_it_again(monkeypatch, late):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)

    def body(own, is_late):
        def run(one):
            found = one.meet(own, (0, 1), ADD)
            if is_late:
                threading.Event().wait(0.2)
            return found.reason[:42], [one.meet("0", (0, 1), ADD) for _ in range(3)]

        return run

    bodies = [body("ab"[rank], rank == late) for rank in (0, 1)]
    said = "ranks [0, 1] wait for each other in differ"
    assert together(*bodies) == [(said, [None] * 3)] * 2


def test_a_rank_that_comes_late_is_waited_for(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)
    come = threading.Event()

    def first(one):
        threading.Timer(0.1, come.set).start()
        return one.meet("0", (0, 1), ADD)

    def late(one):
        come.wait()
        return one.meet("0", (0, 1), ADD)

    assert together(first, late) == [None, None]


def test_a_rank_whose_other_thread_may_go_on_is_not_called_stuck(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)

    def two_threads(one):
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(one.meet, "a", (0, 1), ADD)
            pool.submit(threading.Event().wait, 0.1).result()
            return first.result() if pool.submit(one.meet, "b", (0, 1), ADD).result() else None

    def other_order(one):
        found = one.meet("b", (0, 1), ADD)
        return found or one.meet("a", (0, 1), ADD)

    assert together(two_threads, other_order)[0] is None


def test_a_rank_that_has_ended_is_named_with_its_last_collective(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)
    ended = threading.Event()
    monkeypatch.setattr(alive, "has_ended", lambda _: ended.is_set())

    def stays(one):
        assert one.meet("0", (0, 1), ADD) is None
        return one.meet("0", (0, 1), CallArguments("barrier", line="a.py:9"))

    def leaves(one):
        assert one.meet("0", (0, 1), ADD) is None
        ended.set()

    failure = together(stays, leaves)[0]
    assert failure.ended_ranks == (1,)
    assert failure.reason == (
        "barrier of ranks [0, 1] cannot begin: rank 1 has ended, and this rank passed barrier at "
        "a.py:9\n  rank 1: its last collective of this group was number 1: allreduce float32[4] "
        "at a.py:1"
    )


def test_a_store_that_is_gone_is_left_to_the_transport():
    class Gone(Shared):
        def check(self, _):
            raise RuntimeError("connection reset")

    one = Agreement(Gone(), 0, 2)
    assert one.meet("0", (0, 1), ADD) is None
    assert one.meet("0", (0, 1), ADD) is None


def message(kind, other, elements=4, dtype="float32", line="a.py:1"):
    name = f"{kind} {'to' if kind == 'send' else 'from'} rank {other}"
    return CallArguments(name, f"{dtype}[{elements}]", line=line, elements=elements)


SEND, RECEIVE = message("send", 1), message("recv", 0, line="b.py:2")


def sending(one, passed=SEND, pair=(0, 1)):
    place = one.begin("0/0", *pair, passed)
    return one.mismatch(place) or one.wait_for_peer(place)


def receiving(one, passed=RECEIVE, pair=(0, 1)):
    return sending(one, passed, pair)


def test_messages_that_fit_pass_in_order_and_leave_nothing_behind():
    store = Shared()

    def ahead(one):
        places = [one.begin("0/0", 0, 1, message("send", 1, elements)) for elements in range(50)]
        return [one.wait_for_peer(place) for place in places]

    def behind(one):
        return [receiving(one, message("recv", 0, elements)) for elements in range(50)]

    with ThreadPoolExecutor(2) as pool:
        ranks = [Agreement(store, rank, 2) for rank in (0, 1)]
        found = list(pool.map(lambda body, one: body(one), (ahead, behind), ranks, timeout=10))
    assert found == [[None] * 50] * 2
    assert len([key for key in store if "0>1" in key]) == 2  # those of the last message


@pytest.mark.parametrize(
    "other",
    [
        message("recv", 0, line="b.py:2", elements=5),
        message("recv", 0, line="b.py:2", dtype="int32"),
        message("recv", 0, line="b.py:2", elements=0),
    ],
)
def test_messages_that_do_not_fit_are_named_to_both_sides(other):
    for failure in together(sending, lambda one: receiving(one, other)):
        assert failure.reason == (
            "rank 0 and rank 1 pass what does not fit\n"
            "  rank 0: send to rank 1 float32[4] at a.py:1\n"
            f"  rank 1: recv from rank 0 {other.tensors} at b.py:2"
        )
        assert failure.fix.startswith("receive what is sent")
        assert failure.ended_ranks == ()


def test_a_shape_may_be_another_where_the_elements_are_as_many():
    square = CallArguments("recv from rank 0", "float32[2, 2]", elements=4)
    assert together(sending, lambda one: receiving(one, square)) == [None, None]


def test_who_comes_second_learns_it_before_the_message_is_under_way():
    store = Shared()
    first, second = (Agreement(store, rank, 2) for rank in (0, 1))
    place = first.begin("0/0", 0, 1, SEND)
    assert first.mismatch(place) is None
    wrong = second.begin("0/0", 0, 1, message("recv", 0, 9))
    assert second.mismatch(wrong).reason == first.wait_for_peer(place).reason


def test_messages_of_other_pairs_and_tags_do_not_meet(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)

    def other_tag(one):
        return one.wait_for_peer(one.begin("0/7", 0, 1, RECEIVE))

    for body in (other_tag, lambda one: receiving(one, message("recv", 0), (1, 0))):
        for failure in together(sending, body):
            assert failure.reason.startswith(
                "ranks [0, 1] wait for each other in different calls\n"
                "  rank 0: send to rank 1 float32[4] at a.py:1, call 1 of the two\n  rank 1: recv "
            )
            assert "where both send first, one may use isend" in failure.fix


def test_a_message_and_a_collective_that_wait_for_each_other_are_named(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)
    for failure in together(sending, meeting(ADD)):
        assert failure.reason == (
            "ranks [0, 1] wait for each other in different calls\n"
            "  rank 0: send to rank 1 float32[4] at a.py:1, call 1 of the two\n"
            "  rank 1: allreduce float32[4] at a.py:1, collective 1 of group 0 of ranks [0, 1]"
        )


def test_a_receiver_that_has_ended_is_named_with_its_last_call(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)
    ended = threading.Event()
    monkeypatch.setattr(alive, "has_ended", lambda _: ended.is_set())

    def leaves(one):
        assert receiving(one) is None
        ended.set()

    failure = together(lambda one: (sending(one), sending(one))[1], leaves)[0]
    assert failure.ended_ranks == (1,)
    assert failure.reason == (
        "send to rank 1 cannot begin: rank 1 has ended, and this rank passed send to rank 1 "
        "float32[4] at a.py:1\n  rank 1: its last call between these two was number 1: recv from "
        "rank 0 float32[4] at b.py:2"
    )


def test_a_rank_that_receives_from_whoever_sends_is_left_to_the_transport(monkeypatch):
    monkeypatch.setattr(agreement, "_PATIENCE_S", 0.01)

    def takes_any(one):
        one.receives_from_any()
        return receiving(one, message("recv", 0, 9))  # of which message nobody knows

    def sends_twice(one):
        return [sending(one), sending(one, message("send", 1, 7))]

    assert together(sends_twice, takes_any) == [[None, None], None]


def test_a_wait_with_a_limit_ends():
    store = Shared()
    one = Agreement(store, 0, 2)
    Agreement(store, 1, 2)
    assert one.wait_for_peer(one.begin("0/0", 0, 1, SEND), 0.05) is None


def test_a_message_that_its_other_side_removes_while_it_is_read_passes():
    def sends(one):
        places = [one.begin("0/0", 0, 1, send(at)) for at in range(20)]
        return [one.wait_for_peer(place) for place in reversed(places)]

    def receives(one):
        return [one.wait_for_peer(one.begin("0/0", 0, 1, receive(at))) for at in range(20)]

    def send(at):
        return CallArguments("send to rank 1", f"float32[{at}]", line="a.py:1", elements=at)

    def receive(at):
        return CallArguments("recv from rank 0", f"float32[{at}]", line="a.py:2", elements=at)

    assert together(sends, receives, store=Vanishing()) == [[None] * 20] * 2
