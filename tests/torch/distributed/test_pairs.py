"""Sends and receives of neuron tensors: what fits passes as ever, what does not is named."""

import datetime as dt
import time

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import together

from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import CollectiveBroken, PeerLost

_SOON_S = 10  # a second, on a machine with nothing else to do


def refusing(call):
    """The kind and the text of the error of `call()`, and whether it came soon."""
    begun_s = time.monotonic()
    try:
        call()
    except (CollectiveBroken, PeerLost) as error:
        return type(error).__name__, str(error), time.monotonic() - begun_s < _SOON_S
    return None


def numbered(rank, count=4):
    return torch.full((count,), float(rank), device="neuron")


def everything_that_fits(rank):  # noqa: C901  one program
    found = {}
    after, before = (rank + 1) % 3, (rank - 1) % 3
    with recording() as written:
        ring = numbered(9)
        operations = [
            dist.P2POp(dist.isend, numbered(rank), after),
            dist.P2POp(dist.irecv, ring, before),
        ]
        for work in dist.batch_isend_irecv(operations):
            assert work.wait()
        found["ring"] = ring.tolist()
    found["recorded"] = [(one.kind, one.nbytes, one.ranks) for one in written.collectives]
    if rank == 0:  # many under way, waited for last to first, of several shapes, dtypes and tags
        sent = [numbered(at, at + 1).to(dtype) for at, dtype in enumerate(DTYPES)]
        works = [dist.isend(one, 1, tag=at % 2) for at, one in enumerate(sent)]
        for work in reversed(works):
            work.wait()
    if rank == 1:
        found["many"] = []
        for at, dtype in enumerate(DTYPES):
            here = torch.zeros(1, at + 1, dtype=dtype, device="neuron")  # as many elements
            dist.recv(here, 0, tag=at % 2)
            found["many"].append(here.tolist())
    # A receive that is begun before a collective, and whose send comes behind it.
    late = numbered(9)
    work = dist.irecv(late, 0) if rank == 2 else None
    dist.all_reduce(numbered(rank))
    if rank == 0:
        dist.send(numbered(5), 2)
    if work is not None:
        work.wait()
        found["late"] = late.tolist()
    host = torch.full((2,), float(rank), device="cpu")  # of a group that carries both
    if rank == 1:
        dist.send(host, 0)
    elif rank == 0:
        dist.recv(host, 1)
        found["host"] = host.tolist()
    some = dist.new_group([2, 1])
    if rank:
        mine = numbered(rank)
        (dist.send if rank == 2 else dist.recv)(mine, 3 - rank, group=some)
        found["group"] = mine.tolist()
    dist.barrier()
    if rank:
        dist.send(numbered(rank), 0)
    else:
        anybody = numbered(9)
        found["any"] = sorted((dist.recv(anybody), anybody.tolist()) for _ in range(2))
    return found


DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.int16, torch.uint8, torch.float16)


def test_messages_that_fit_pass_in_every_way():
    first, second, third = together(everything_that_fits, 3)
    for rank, one in enumerate((first, second, third)):
        assert one["ring"] == [(rank - 1) % 3] * 4
        pairs = {((rank - 1) % 3, rank), (rank, (rank + 1) % 3)}
        assert {(kind, nbytes) for kind, nbytes, _ in one["recorded"]} == {("send", 16)}
        assert {ranks for *_, ranks in one["recorded"]} == pairs  # both sides name the same pair
    assert second["many"] == [[[at] * (at + 1)] for at in range(len(DTYPES))]
    assert third["late"] == [5] * 4
    assert first["host"] == [1, 1]
    assert second["group"] == third["group"] == [2] * 4
    assert first["any"] == [(1, [1.0] * 4), (2, [2.0] * 4)]


def dtype(rank):
    other = numbered(0)
    return lambda: dist.recv(other.int(), 0, tag=1) if rank else dist.send(other, 1, tag=1)


def elements(rank):
    operation = dist.P2POp(
        dist.irecv if rank else dist.isend, numbered(0, 6 if rank else 4), 1 - rank
    )
    return lambda: [work.wait() for work in dist.batch_isend_irecv([operation])]


def both_receive(rank):
    return lambda: dist.recv(numbered(0), 1 - rank, tag=2)


def tag(rank):
    return lambda: dist.recv(numbered(0), 0, tag=3) if rank else dist.send(numbered(0), 1, tag=4)


def collective(rank):
    return lambda: dist.all_reduce(numbered(0)) if rank else dist.send(numbered(0), 1, tag=5)


WRONG = (dtype, elements, both_receive, tag, collective)
EXPECTED = {
    "dtype": "rank 0 and rank 1 pass what does not fit\n"
    "  rank 0: send to rank 1 (tag 1) float32[4] at {0}:{1}\n"
    "  rank 1: recv from rank 0 (tag 1) int32[4] at {0}:{1}\n",
    "elements": "rank 0: send to rank 1 float32[4] at {0}:{1}\n"
    "  rank 1: recv from rank 0 float32[6] at {0}:{1}\n",
    "both_receive": "ranks [0, 1] wait for each other in different calls\n"
    "  rank 0: recv from rank 1 (tag 2) float32[4] at {0}:{1}, call 1 of the two\n"
    "  rank 1: recv from rank 0 (tag 2) float32",
    "tag": "rank 1: recv from rank 0 (tag 3) float32[4] at {0}:{1}, call 1 of the two",
    "collective": "rank 1: allreduce float32[4] at {0}:{1}, collective 1 of group 0 of ranks",
}


def peer(rank):
    """The sender's receiver waits for another, which is in a collective with the sender missing."""
    if rank == 0:
        return lambda: dist.send(numbered(0), 1)
    return (lambda: dist.recv(numbered(0), 2)) if rank == 1 else dist.barrier


def refused_one_after_the_other(rank):
    found = {}
    for way in WRONG:
        found[way.__name__] = refusing(way(rank))
    if rank:  # ends early, with status 0
        return found
    found["ended"] = refusing(lambda: dist.recv(numbered(0), 1, tag=6))
    return found


def lines_of(way):
    return way.__code__.co_consts and next(
        one.co_firstlineno for one in way.__code__.co_consts if hasattr(one, "co_firstlineno")
    )


@pytest.mark.slow
def test_messages_that_do_not_fit_are_named():
    ranks = together(refused_one_after_the_other)
    kind, message, _ = ranks[0].pop("ended")  # a process takes a while to end
    assert kind == "PeerLost"
    assert "rank 1 has ended" in message or "rank 1 did not answer" in message
    for found in ranks:
        for way in WRONG:
            kind, message, is_soon = found[way.__name__]
            assert (kind, is_soon) == ("CollectiveBroken", True), way.__name__
            assert EXPECTED[way.__name__].format(__file__, lines_of(way)) in message, message


def wrong_peer(rank):
    call = peer(rank)
    dist.all_reduce(numbered(rank))
    if rank == 2:
        time.sleep(2)  # it closes the circle: whoever waits has said so by then
    return refusing(call)


@pytest.mark.slow
def test_a_wrong_peer_is_named_with_who_waits_for_whom():
    for kind, message, is_soon in together(wrong_peer, 3):
        assert (kind, is_soon) == ("CollectiveBroken", True)
        assert (
            "ranks [0, 1, 2] wait for each other in different calls\n  rank 0: send to" in message
        )
        assert "\n  rank 1: recv from rank 2 float32[4] at " in message
        assert "\n  rank 2: barrier at " in message


def limited(rank):
    if rank:
        time.sleep(2)
        return None
    begun_s = time.monotonic()
    try:
        dist.irecv(numbered(0), 1).wait(dt.timedelta(seconds=0.3))
    except (RuntimeError, PeerLost) as error:
        return type(error).__name__, time.monotonic() - begun_s
    return None


@pytest.mark.slow
def test_a_wait_with_a_limit_ends_with_the_transports_error():
    kind, took_s = together(limited)[0]
    assert kind in ("CollectiveBroken", "PeerLost")
    assert took_s < 4
