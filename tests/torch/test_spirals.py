import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch import spirals


@pytest.mark.slow
def test_the_demo_trains_like_the_cpu():
    result = spirals.train(seed=1, steps=10)
    assert result.steps == 10
    assert result.last_loss < result.first_loss
    assert result.largest_difference_from_cpu < 1e-3
    assert "MLP" in result.model


@pytest.mark.slow
def test_the_demo_runs_compiled_graphs_whose_time_is_of_the_chip():
    times = {chip: spirals.train(steps=1, target=chip) for chip in ("trn1", "trn2")}
    for result in times.values():
        assert result.graphs == 2
    assert 2 * 13e-6 < times["trn1"].compiled_s != times["trn2"].compiled_s


@pytest.mark.slow
def test_the_demo_repeats_itself_and_leaves_the_seed_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    assert spirals.train(steps=3) == spirals.train(steps=3)
    assert torch.equal(torch.rand(1), expected)
