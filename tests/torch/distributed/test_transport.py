"""Every collective, reduction and dtype between two processes, beside numpy's answer."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.distributed as dist
from groups import together

from trnsim.torch.device_errors import CollectiveRefused, PeerLost
from trnsim.torch.distributed import transport

FLOATS = ("float32", "float64", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
DTYPES = (*FLOATS, *INTEGERS, "bool")
VALUES = [[6, 0, 3, 1], [3, 1, 3, 0]]  # every reduction of 6 and 3 gives another number
EXACT = {"int32": 2**31 - 1, "int64": 2**62 + 1, "uint8": 255, "float64": 2.0**60 + 2**10}
REDUCED = {
    "SUM": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
    "AVG": lambda a, b: (a + b) / 2 if a.dtype.kind == "f" else np.trunc((a + b) / 2),
}


def tensor_of(rank, dtype):
    return torch.tensor(VALUES[rank], device="neuron").to(getattr(torch, dtype))


def numbers(tensor):
    return tensor.cpu().to(torch.float64).tolist()


def expected_reduction(name, dtype):
    kind = np.float64 if dtype in FLOATS else bool if dtype == "bool" else np.int64
    found = REDUCED[name](*(np.array(one, dtype=kind) for one in VALUES)).astype(np.float64)
    # Rounded once, to the nearest number of eight bits.
    return found.astype(getattr(ml_dtypes, dtype, np.float64)).astype(np.float64).tolist()


def refusing(call):
    """What `call()` gives, or the first line of its refusal."""
    try:
        return call()
    except CollectiveRefused as error:
        return str(error).splitlines()[0]


def reduced(rank, operation, dtype):
    total, at_first, pair = (tensor_of(rank, dtype) for _ in range(3))
    dist.all_reduce(total, operation)
    dist.reduce(at_first, 0, operation)
    dist.all_reduce_coalesced([pair], operation)
    mine = tensor_of(rank, dtype)
    halves = [torch.empty(2, dtype=mine.dtype, device="neuron") for _ in range(2)]
    dist.reduce_scatter_tensor(halves[0], mine, operation)
    dist.reduce_scatter(halves[1], list(mine.chunk(2)), operation)
    assert numbers(mine) == numbers(tensor_of(rank, dtype)), "what is given is not written"
    seen = [numbers(t) for t in (total, pair)] + [numbers(at_first)] * (rank == 0)
    return seen, [numbers(half) for half in halves]


def all_reductions(rank):
    return {
        (name, dtype): refusing(partial(reduced, rank, getattr(dist.ReduceOp, name), dtype))
        for name in REDUCED
        for dtype in DTYPES
    }


def moved(rank, dtype):
    mine = tensor_of(rank, dtype)
    sent = mine.clone()
    dist.broadcast(sent, 1)
    listed = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(listed, mine)
    whole, swapped = torch.cat(listed).zero_(), torch.empty_like(mine)
    dist.all_gather_into_tensor(whole, mine)
    dist.all_to_all_single(swapped, mine)
    uneven = torch.empty(2 if rank == 0 else 6, dtype=mine.dtype, device="neuron")
    dist.all_to_all_single(uneven, mine, [1, 1] if rank == 0 else [3, 3], [1, 3])
    parts = [torch.empty(2, dtype=mine.dtype, device="neuron") for _ in range(2)]
    dist.all_to_all(parts, list(mine.chunk(2)))
    gathered = [torch.empty_like(mine) for _ in range(2)] if rank == 0 else None
    dist.gather(mine, gathered, dst=0)
    scattered = torch.empty(2, dtype=mine.dtype, device="neuron")
    dist.scatter(scattered, list(mine.chunk(2)) if rank == 1 else None, src=1)
    taken = torch.empty_like(mine)
    pair = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, taken, 1 - rank)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    found = [sent, *listed, whole, swapped, uneven, torch.cat(parts), scattered, taken]
    return [numbers(t) for t in found], [numbers(t) for t in gathered or []]


def all_moves(rank):
    return {dtype: moved(rank, dtype) for dtype in DTYPES}


@pytest.mark.slow
def test_reductions_are_those_of_numpy_or_are_refused():
    for rank, found in enumerate(together(all_reductions)):
        for (name, dtype), answer in found.items():
            if name.startswith("B") and dtype in FLOATS:
                assert f"Cannot use ReduceOp.{name} with non-integral dtype" in answer
            elif (name, dtype) == ("AVG", "bool"):
                assert answer.startswith("allreduce of torch.bool is refused")
            else:
                whole = expected_reduction(name, dtype)
                whole_seen, half_seen = answer
                assert all(one == whole for one in whole_seen), (name, dtype)
                half = whole[:2] if rank == 0 else whole[2:]
                assert half_seen == [half, half], (name, dtype)


def test_values_of_every_dtype_are_moved():
    first, second = ([float(n) for n in one] for one in VALUES)
    bools = [[float(bool(n)) for n in one] for one in VALUES]
    for rank, found in enumerate(together(all_moves)):
        for dtype, (answer, gathered) in found.items():
            a, b = bools if dtype == "bool" else (first, second)
            half = slice(0, 2) if rank == 0 else slice(2, 4)
            uneven = slice(0, 1) if rank == 0 else slice(1, 4)
            swapped = a[half] + b[half]
            expected = [b, a, b, a + b, swapped, a[uneven] + b[uneven], swapped]
            assert answer == [*expected, b[half], (b, a)[rank]], dtype
            assert gathered == ([a, b] if rank == 0 else []), dtype


def extremes(rank):
    del rank
    found = {}
    for dtype, value in EXACT.items():
        mine = torch.tensor([value], dtype=getattr(torch, dtype), device="neuron")
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        found[dtype] = mine.item()
    negative = torch.tensor([-3, 100, -128], dtype=torch.int8, device="neuron")
    negative[0] += dist.get_rank()
    dist.all_reduce(negative, dist.ReduceOp.AVG)
    return found, negative.tolist()


def test_integers_are_exact_and_averages_are_cut_towards_zero():
    for found, negative in together(extremes):
        assert found == EXACT
        assert negative == [-2, 100, -128]


def multiplied_sums(rank):
    """Sums of multiples, by every collective that reduces; factors are numbers or tensors."""
    found = {}
    for dtype in FLOATS:
        for factor in (0.5, torch.tensor([0.5])):
            operation = dist._make_nccl_premul_sum(factor)
            seen, halves = reduced(rank, operation, dtype)
            found.setdefault(dtype, []).append((seen, halves))
    return found


def test_sums_of_multiples():
    whole = [4.5, 0.5, 3.0, 0.5]
    for rank, found in enumerate(together(multiplied_sums)):
        for dtype, answers in found.items():
            kind = getattr(ml_dtypes, dtype, np.float64)
            expected = np.array(whole).astype(kind).astype(np.float64).tolist()
            half = expected[:2] if rank == 0 else expected[2:]
            for seen, halves in answers:
                assert all(one == expected for one in seen), dtype
                assert halves == [half, half], dtype


def mismatched(rank):
    messages = []
    mine = torch.ones(4 if rank else 2, device="neuron")
    try:
        dist.all_gather_into_tensor(torch.empty(3, device="neuron"), mine)
    except (ValueError, RuntimeError) as error:
        messages.append((isinstance(error, PeerLost), str(error)))
    try:
        multiplied = dist._make_nccl_premul_sum(2.0)
        dist.all_reduce(torch.ones(3, dtype=torch.int32, device="neuron"), multiplied)
    except CollectiveRefused as error:
        messages.append((isinstance(error, PeerLost), str(error)))
    return messages


def test_what_is_refused_is_no_lost_peer():
    for messages in together(mismatched):
        assert [is_lost for is_lost, _ in messages] == [False, False]
        assert "allreduce of torch.int32 is refused: Cannot use ReduceOp" in messages[1][1]
        assert "fix: use another reduction or another dtype" in messages[1][1]
        assert __file__ in messages[1][1]


@pytest.mark.parametrize(
    ("message", "is_interruption"),
    [
        ("[/x/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:9", True),
        ("Timed out waiting 1000ms for recv operation to complete", True),
        ("Invalid scalar type", False),
        ("Cannot use ReduceOp.BAND with non-integral dtype", False),
        ("result type Float can't be cast to the desired output type Long", False),
    ],
)
def test_an_exchange_that_broke_off_is_told_from_one_that_was_refused(message, is_interruption):
    assert transport.is_interruption(RuntimeError(message)) is is_interruption
    assert transport.is_interruption(dist.DistNetworkError("anything"))
