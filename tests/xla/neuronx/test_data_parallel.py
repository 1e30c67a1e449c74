import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device.device_core import visible_cores
from trnsim.errors import BadInput
from trnsim.xla.neuronx.data_parallel import DataParallel
from trnsim.xla.neuronx.modules import loaded_parts
from trnsim.xla.neuronx.trace import trace

MODEL = nn.Linear(4, 3)

pytestmark = pytest.mark.slow  # it compiles programs


@pytest.fixture(scope="module")
def traced():
    return trace(MODEL, torch.ones(2, 4))


@pytest.mark.parametrize("batch", [1, 2, 5, 9])
def test_a_batch_goes_to_all_cores_and_comes_back_in_order(traced, batch):
    parallel = DataParallel(traced)
    assert parallel.device_ids == list(range(len(visible_cores())))
    assert parallel.num_workers == 2 * len(visible_cores())
    x = torch.randn(batch, 4)
    torch.testing.assert_close(parallel(x), MODEL(x).detach())


def test_cores_are_named_by_index_or_text_and_the_module_stays_where_it_is(traced):
    ((_, instance),) = loaded_parts(traced, "test")
    before = instance.placement.cores
    parallel = DataParallel(traced, device_ids=["nc:1", 2])
    assert parallel.device_ids == [1, 2]
    places = [
        loaded_parts(one, "test")[0].instance.placement.cores for (one,) in parallel._replicas
    ]
    assert places == [(1,), (2,)]
    assert instance.placement.cores == before


@pytest.mark.parametrize("device_ids", [[], ["core 1"], [1.5], 2, "nc:0"])
def test_cores_that_are_none_are_refused(traced, device_ids):
    with pytest.raises(ValueError, match="device_ids"):
        DataParallel(traced, device_ids=device_ids)


def test_without_dynamic_batches_each_core_takes_the_traced_size(traced):
    parallel = DataParallel(traced, device_ids=[0, 1])
    parallel.disable_dynamic_batching()
    x = torch.randn(4, 4)
    torch.testing.assert_close(parallel(x), MODEL(x).detach())
    with pytest.raises(RuntimeError, match=r"float32\[3, 4\]; legal: float32\[2, 4\]"):
        parallel(torch.randn(6, 4))


def test_parts_have_the_size_that_is_asked_for(traced):
    parallel = DataParallel(traced)
    parallel.split_size, parallel.num_workers = 3, 1
    x = torch.randn(7, 4)
    torch.testing.assert_close(parallel(x), MODEL(x).detach())


def test_another_dimension_is_split_into_equal_parts():
    parallel = DataParallel(trace(lambda x: {"y": x * 2}, torch.ones(1, 4)), [0, 1], dim=1)
    x = torch.randn(1, 8)
    torch.testing.assert_close(parallel(x)["y"], x * 2)
    assert not parallel.dynamic_batching


def test_a_result_without_the_dimension_is_that_of_no_part():
    parallel = DataParallel(trace(lambda x: (x * 2, x.sum()), torch.ones(2, 4)), [0, 1])
    parallel.disable_dynamic_batching()
    with pytest.raises(ValueError, match=r"a result of shape \[\] of each of 2 parts"):
        parallel(torch.ones(4, 4))
    parallel.split_size = 2
    doubled, total = parallel(torch.ones(2, 4))
    assert torch.equal(doubled, torch.full((2, 4), 2.0))
    assert total == 8


def test_inputs_have_one_size_along_the_dimension(traced):
    with pytest.raises(ValueError, match="legal: one size"):
        DataParallel(traced)(torch.ones(0, 4))
    pair = DataParallel(trace(lambda x, y: x + y, (torch.ones(2, 4),) * 2))
    with pytest.raises(ValueError, match="inputs of sizes 2, 3 along dimension 0"):
        pair(torch.ones(2, 4), torch.ones(3, 4))


def test_a_model_without_one_batch_has_no_dynamic_batches():
    traced = trace(lambda x, y: x + y, (torch.ones(2, 4), torch.ones(1, 4)))
    with pytest.warns(UserWarning, match="without dynamic batching"):
        assert not DataParallel(traced).dynamic_batching


def test_a_model_that_was_not_traced_is_refused():
    with pytest.raises(BadInput, match=r"torch_neuronx.DataParallel of a Linear"):
        DataParallel(MODEL)


def test_an_error_in_a_thread_has_the_program_s_line(traced):
    parallel = DataParallel(traced, device_ids=[0, 1])
    with pytest.raises(RuntimeError, match=r"float32\[2, 4\]") as refused:
        parallel(torch.randn(4, 5))
    assert f"at {__file__}:" in str(refused.value)
    assert "thread.py:" not in str(refused.value).partition("\nAt:")[0]


def test_what_is_no_batch_is_refused(traced):
    with pytest.raises(ValueError, match="an input with 'text'; legal: tensors"):
        DataParallel(traced)("text")
    with pytest.raises(ValueError, match="dim='x'; legal: the number"):
        DataParallel(traced, dim="x")


def test_a_dimension_or_a_size_that_no_input_has_is_refused():
    traced = trace(nn.Linear(4, 4), torch.ones(4, 4))
    with pytest.raises(ValueError, match="inputs of sizes none along dimension -3"):
        DataParallel(traced, [0], dim=-3)(torch.ones(4, 4))
    parallel = DataParallel(traced, [0])
    for size in (-2, 0, "a"):
        parallel.split_size = size
        with pytest.raises(ValueError, match="legal: None, or a number from 1 on"):
            parallel(torch.ones(4, 4))
