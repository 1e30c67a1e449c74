import io

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device.device_core import visible_cores
from trnsim.errors import BadInput
from trnsim.xla.neuronx import modules
from trnsim.xla.neuronx.trace import trace

X = torch.randn(2, 4)

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@pytest.fixture(scope="module")
def apart():
    return trace(nn.Linear(4, 3), X, inline_weights_to_neff=False)


@pytest.fixture(scope="module")
def traced():
    return trace(nn.Linear(4, 3), X)


def loaded(module):
    stream = io.BytesIO()
    torch.jit.save(module, stream)
    stream.seek(0)
    return torch.jit.load(stream)


def cores(module):
    ((_, instance),) = modules.loaded_parts(module, "test")
    return instance._placement and instance._placement.cores


@pytest.mark.slow
@pytest.mark.parametrize("form", [lambda model: model, lambda model: model.state_dict()])
def test_weights_apart_are_replaced_before_and_after_a_call(apart, form):
    for _ in range(2):
        model = nn.Linear(4, 3)
        modules.replace_weights(apart, form(model))
        assert torch.equal(apart(X), model(X))
        assert torch.equal(loaded(apart)(X), model(X))


@pytest.mark.slow
def test_replaced_weights_have_the_names_and_shapes_that_were_traced(apart):
    before = apart(X)
    modules.replace_weights(apart, {"bias": torch.zeros(3)})
    assert torch.equal(apart(X), before - before + apart(X))
    with pytest.raises(BadInput, match=r"weight is float32\[2, 4\]; legal: float32\[3, 4\]"):
        modules.replace_weights(apart, nn.Linear(4, 2))
    with pytest.raises(BadInput, match=r"no weight of Linear.* is among model.weight"):
        modules.replace_weights(apart, {"model.weight": torch.zeros(3, 4)})


def test_weights_within_the_program_stay_with_a_warning(traced):
    before = traced(X)
    with pytest.warns(UserWarning, match="trace with inline_weights_to_neff=False"):
        modules.replace_weights(traced, nn.Linear(4, 3))
    assert torch.equal(traced(X), before)


def test_a_module_moves_between_cores(traced):
    modules.move_trace_to_device(traced, 3)
    assert cores(traced) == (3,)
    modules.set_neuron_cores(traced, 1, 2)
    assert cores(traced) == (1, 2)
    modules.set_multicore(traced)
    assert cores(traced) == tuple(range(len(visible_cores())))
    for _ in range(3):
        assert traced(X).shape == (2, 3)
    with pytest.raises(ValueError, match="nc_count=99"):
        modules.set_neuron_cores(traced, 0, 99)


@pytest.mark.slow
def test_contexts_place_what_is_loaded_in_them(traced):
    with modules.neuron_cores_context(start_nc=2, nc_count=2):
        placed = loaded(traced)
    assert cores(placed) == (2, 3)
    with modules.multicore_context():
        assert cores(loaded(traced)) == tuple(range(len(visible_cores())))
    with modules.disable_nrt_load():
        placed = loaded(traced)
    assert cores(placed) is None
    placed(X)
    assert len(cores(placed)) == 1


@pytest.mark.slow
def test_loading_later_is_saved_with_the_module():
    traced = trace(nn.Linear(4, 3), X)
    modules.lazy_load(traced)
    modules.async_load(traced)
    placed = loaded(traced)
    assert cores(placed) is None
    assert torch.equal(placed(X), traced(X))
    modules.lazy_load(traced, 0)
    modules.async_load(traced, enable_async_load=False)
    assert len(cores(loaded(traced))) == 1


@pytest.mark.slow
def test_dynamic_batches_are_cut_and_padded():
    model = nn.Linear(4, 3)
    traced = trace(model, X)
    assert modules.dynamic_batch(traced) is traced
    for batch in (1, 2, 5):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(loaded(traced)(x), model(x))
    with pytest.raises(RuntimeError, match=r"input is float32\[2, 5\]"):
        traced(torch.ones(2, 5))
    with pytest.raises(BadInput, match="begin with dimensions 1, 2"):
        modules.dynamic_batch(trace(lambda x, y: x + y, (torch.ones(1, 4), X)))


@pytest.mark.parametrize(
    "function", [modules.set_multicore, modules.lazy_load, modules.dynamic_batch]
)
def test_a_module_that_was_not_traced_is_refused(function):
    with pytest.raises(BadInput, match=r"legal: what torch_neuronx.trace returns"):
        function(nn.Linear(1, 1))


@pytest.mark.parametrize("core", [-1, 99])
def test_a_module_moves_to_a_core_that_is_there(traced, core):
    with pytest.raises(RuntimeError, match=f"neuron:{core} does not exist"):
        modules.move_trace_to_device(traced, core)
    with pytest.raises(ValueError, match="device_id='neuron:0'; legal: a number"):
        modules.move_trace_to_device(traced, "neuron:0")


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (None, "with a NoneType; legal: a torch.nn.Module"),
        ([torch.ones(1)], "with a list; legal"),
        ({"weight": [1.0]}, "mapping with a list of the name 'weight'; legal"),
        ({1: torch.ones(3, 4)}, "mapping with a Tensor of the name 1; legal"),
        ({"weights": torch.ones(3, 4), "bias": torch.ones(3)}, "no weight weights, .* for weight"),
    ],
)
def test_what_are_no_weights_is_refused_and_changes_nothing(apart, weights, match):
    before = apart(X)
    with pytest.raises(BadInput, match=match) as refused:
        modules.replace_weights(apart, weights)
    assert refused.value.line.file == __file__
    assert torch.equal(apart(X), before)


def test_names_beside_those_of_all_weights_are_no_mistake(apart):
    model = nn.Linear(4, 3)
    modules.replace_weights(apart, {**model.state_dict(), "tied.weight": model.weight})
    assert torch.equal(apart(X), model(X))
