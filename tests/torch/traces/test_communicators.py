from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.call_log import recording
from trnsim.torch.traces.communicators import Communicator, RankMissing, communicator

ALL = ((0, 1, 2, 3),)
COLUMNS = ((0, 2), (1, 3))
NUMBERS = (1, 2, 4, 6)


def on_ranks(meeting, body, ranks=range(4)):
    """What `body(rank)` gives in a thread of each rank; an error in place of a result."""

    def run(rank):
        try:
            with meeting.running(rank):
                return body(rank)
        except (RankMissing, ZeroDivisionError) as error:
            return error

    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(run, ranks))


def exchanged(name, groups, arguments, tensor_of):
    """The results of one exchange."""
    meeting = Communicator(4)
    return on_ranks(
        meeting, lambda rank: meeting.exchange(rank, name, groups, arguments, tensor_of(rank))
    )


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("sum", 13), ("product", 48), ("min", 1), ("max", 6), ("band", 0), ("bor", 7)],
)
def test_a_reduction_is_the_same_on_all_ranks(operation, expected):
    results = exchanged("all_reduce", ALL, (operation,), lambda rank: torch.tensor([NUMBERS[rank]]))
    assert [result.tolist() for result in results] == [[expected]] * 4
    assert results[0].dtype == torch.int64


def test_an_average_and_a_sum_keep_a_short_type():
    for operation, expected in (("avg", 3.25), ("sum", 13)):
        results = exchanged(
            "all_reduce",
            ALL,
            (operation,),
            lambda rank: torch.tensor([NUMBERS[rank]], dtype=torch.bfloat16),
        )
        assert results[3].dtype == torch.bfloat16
        assert results[3].item() == expected


def test_each_group_has_its_own_values_and_each_rank_its_own_tensor():
    results = exchanged(
        "all_gather_into_tensor", COLUMNS, (2,), lambda rank: torch.full((1, 2), float(rank))
    )
    assert [result.tolist() for result in results] == [
        [[0, 0], [2, 2]],
        [[1, 1], [3, 3]],
        [[0, 0], [2, 2]],
        [[1, 1], [3, 3]],
    ]
    assert results[0].data_ptr() != results[2].data_ptr()


def test_parts_go_to_the_ranks_in_order():
    scattered = exchanged(
        "reduce_scatter_tensor", COLUMNS, ("sum", 2), lambda rank: torch.tensor([1, 10]) * rank
    )
    assert [result.tolist() for result in scattered] == [[2], [4], [20], [40]]
    swapped = exchanged(
        "all_to_all_single",
        ALL,
        ([1] * 4, [1] * 4),
        lambda rank: torch.arange(4) + 10 * rank,
    )
    assert swapped[2].tolist() == [2, 12, 22, 32]


def test_the_nth_exchange_of_each_rank_is_one_in_every_run():
    meeting = Communicator(4)

    def body(rank):
        total = torch.tensor([float(rank)])
        for _ in range(3):
            total = meeting.exchange(rank, "all_reduce", ALL, ("sum",), total)
        return total.item()

    for _ in range(2):
        assert on_ranks(meeting, body) == [6 * 4 * 4] * 4


def test_a_rank_that_fails_or_never_runs_is_named_and_the_next_run_is_whole():
    meeting = Communicator(4, wait_s=0.1)

    def sum_of(rank, failing=-1):
        if rank == failing:
            raise ZeroDivisionError
        return meeting.exchange(rank, "all_reduce", ALL, ("sum",), torch.tensor([rank]))

    results = on_ranks(meeting, lambda rank: sum_of(rank, failing=2))
    assert isinstance(results[2], ZeroDivisionError)
    reasons = {results[rank].reason for rank in (0, 1, 3)}
    assert any("rank 2 ended with ZeroDivisionError" in reason for reason in reasons)
    (alone,) = on_ranks(meeting, sum_of, ranks=[1])
    assert alone.reason == (
        "rank 1 of 4 waited in all_reduce: rank 0, 2, 3 runs nothing in this process"
    )
    assert [result.item() for result in on_ranks(meeting, sum_of)] == [6] * 4


def test_ranks_that_make_different_exchanges_are_named():
    meeting = Communicator(4)
    results = on_ranks(
        meeting,
        lambda rank: meeting.exchange(
            rank, "all_reduce", ALL, ("sum",), torch.zeros(1 + (rank == 3))
        ),
    )
    reasons = " ".join(result.reason for result in results)
    assert "all_reduce of float32[2], sum" in reasons
    assert "all_reduce of float32[1], sum" in reasons


def test_a_run_without_exchanges_is_no_turn_of_its_rank():
    meeting = Communicator(4)
    with meeting.running(1):
        pass
    results = on_ranks(
        meeting, lambda rank: meeting.exchange(rank, "all_reduce", ALL, ("sum",), torch.ones(1))
    )
    assert [result.item() for result in results] == [4] * 4


def test_ranks_that_wait_for_one_another_in_different_groups_are_named():
    meeting = Communicator(4)
    rows = ((0, 1), (2, 3))

    def body(rank):
        groups = rows if rank in (0, 3) else COLUMNS  # 0 waits for 1, 1 for 3, 3 for 2, 2 for 0
        return meeting.exchange(rank, "all_reduce", groups, ("sum",), torch.ones(1))

    reasons = " ".join(result.reason for result in on_ranks(meeting, body))
    assert "waits in another exchange" in reasons


def test_an_exchange_is_recorded_once_with_the_larger_side():
    with recording() as log:
        exchanged("all_gather_into_tensor", ALL, (4,), lambda rank: torch.zeros(8) + rank)
    (call,) = log.collectives
    assert (call.kind, call.nbytes, call.ranks) == ("all_gather", 4 * 8 * 4, (0, 1, 2, 3))


def test_ranks_of_one_number_share_a_communicator():
    assert communicator(2) is communicator(2)
    assert communicator(2) is not communicator(4)
