"""What processes pass to collectives, and the errors of those that do not fit."""

import time

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import together

from trnsim.torch.device_errors import CollectiveBroken, PeerLost


def refusing(call):
    """The kind and the text of the error of `call()`, and the seconds it took."""
    begun_s = time.monotonic()
    try:
        call()
    except (CollectiveBroken, PeerLost) as error:
        return type(error).__name__, str(error), time.monotonic() - begun_s
    return None


def pairs_that_do_not_fit(rank):
    four = torch.ones(4, device="neuron")
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    swapped = torch.empty(4, device="neuron")
    return {
        "dtype": refusing(lambda: dist.all_reduce(four.int() if rank else four)),
        "shape": refusing(lambda: dist.all_reduce(four[:2] if rank else four)),
        "kind": refusing(lambda: dist.broadcast(four, 0) if rank else dist.all_reduce(four)),
        "root": refusing(lambda: dist.broadcast(four, rank)),
        "uneven": refusing(
            lambda: dist.all_to_all_single(swapped, four, [2, 2], [1, 3] if rank else [2, 2])
        ),
        "group": refusing(lambda: dist.all_reduce(four, group=groups[rank])),
        "fits": refusing(lambda: dist.all_reduce(four)),
    }


EXPECTED = {
    "dtype": "rank 0: allreduce float32[4] at {0}:30\n  rank 1: allreduce int32[4] at {0}:30",
    "shape": "rank 0: allreduce float32[4] at {0}:31\n  rank 1: allreduce float32[2] at {0}:31",
    "kind": "allreduce beside broadcast: ranks [0, 1] meet, and passed\n  rank 0: allreduce",
    "root": "rank 0: broadcast float32[4] root 0 at {0}:33\n  rank 1: broadcast float32[4] root 1",
    "uneven": "alltoall_base: rank 1 sends 1 elements to rank 0, which receives 2 from it",
    "group": "ranks [0, 1] wait for each other in different collectives\n  rank 0: allreduce",
}


def test_processes_that_call_different_things_are_told_what_each_passed():
    for found in together(pairs_that_do_not_fit):
        assert found.pop("fits") is None
        for name, (kind, message, _) in found.items():
            assert kind == "CollectiveBroken"
            assert EXPECTED[name].format(__file__) in message, (name, message)


def leaving_early(rank):
    mine = torch.ones(3, device="neuron")
    dist.all_reduce(mine)
    return None if rank else refusing(lambda: dist.all_reduce(mine))


def test_a_process_that_has_ended_is_named_to_those_that_wait_for_it():
    (kind, message, _), _ = together(leaving_early)
    assert kind == "PeerLost"
    assert (
        "allreduce of ranks [0, 1] cannot begin: rank 1 has ended, and this rank passed" in message
    )
    assert "its last collective of this group was number 1: allreduce float32[3] at" in message
    assert "it made fewer calls than the others" in message
