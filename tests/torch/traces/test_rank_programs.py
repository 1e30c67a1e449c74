import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.rank_programs import RankPrograms, ranks_of

NOTHING = torch.empty(0, dtype=torch.uint8)
WEIGHT = torch.tensor([2.0, -3.0])


def content(program):
    return torch.frombuffer(bytearray(program.to_bytes()), dtype=torch.uint8)


def test_programs_are_found_by_the_memory_of_their_bytes(scaled):
    first = content(scaled)
    ranks = ranks_of(first, NOTHING, 1, 1)
    assert ranks_of(first.view(-1), NOTHING, 1, 1) is ranks
    assert ranks_of(content(scaled), NOTHING, 1, 1) is not ranks


def test_each_rank_has_its_weights_and_its_core(scaled):
    ranks = RankPrograms(content(scaled), NOTHING, 3, 3)
    ranks.initialize([], [{"weight": WEIGHT * rank, "unused": WEIGHT} for rank in range(3)], 0)
    results = ranks.run([[torch.ones(2, 2) + rank] for rank in range(3)])
    assert [part.get_device() for (part,) in results] == [0, 1, 2]
    assert results[2][0].tolist() == [[12, -18], [12, -18]]
    ranks.initialize([], [{"weight": WEIGHT}] * 3, 0)
    assert ranks.run([[torch.ones(2, 2)]] * 3)[2][0].tolist() == [[2, -3], [2, -3]]


def test_what_lies_on_the_core_stays_the_callers(scaled):
    ranks, weight = RankPrograms(content(scaled), NOTHING, 1, 1), WEIGHT.to("neuron")
    ranks.initialize([], [{"weight": weight}], 0)
    weight.zero_()
    assert not ranks.run([[torch.ones(2, 2)]])[0][0].any()


def test_without_weights_nothing_runs(scaled):
    ranks = RankPrograms(content(scaled), NOTHING, 1, 1)
    assert not ranks.is_initialized()
    with pytest.raises(BadInput, match="inputs of 1 ranks for a program that has no weights yet"):
        ranks.run([[torch.ones(2, 2)]])
    with pytest.raises(BadInput, match="no program that trnsim traced"):
        RankPrograms(torch.zeros(9, dtype=torch.uint8), NOTHING, 1, 1).initialize([], [{}], 0)
