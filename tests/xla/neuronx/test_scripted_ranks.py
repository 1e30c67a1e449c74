import io
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.traces import exchanges
from trnsim.torch.traces.instances import LoadedProgram
from trnsim.torch.traces.metaneff import MetaNeff
from trnsim.xla.neuronx.trace import traced_program

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


class Ranked(torch.nn.Module):
    """The sum over two ranks of each rank's product, times the calls so far."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4, 3))
        self.calls = torch.nn.Buffer(torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return exchanges.all_reduce(x @ self.weight, "sum", [[0, 1]]) * self.calls


@pytest.fixture(scope="module")
def ranked():
    """A program of two ranks."""
    _, program = traced_program(Ranked(), torch.ones(2, 4), {})
    return program.to_bytes(), MetaNeff.of(program, {}).SerializeToString()


def model_of(ranked, ranks=2):
    return torch.classes.neuron.SPMDModel(*ranked, ranks, ranks)


WEIGHTS = [{"weight": torch.ones(4, 3)}, {"weight": torch.full((4, 3), 2.0)}]


def test_ranks_run_a_program_and_their_tensors_stay_the_callers(ranked, tmp_path):
    model, x = model_of(ranked), torch.randn(2, 4)
    assert not model.is_initialized()
    weights = torch.ops.neuron._parallel_load(WEIGHTS)
    assert [shard["weight"].get_device() for shard in weights] == [0, 1]
    states = [{"calls": torch.zeros(1, device=f"privateuseone:{rank}")} for rank in range(2)]
    model.initialize(states, weights, 0)
    assert model.is_initialized()
    whole = x @ torch.ones(4, 3)
    torch.testing.assert_close(model.forward([x])[0], 3 * whole)
    weights[1]["weight"].copy_(torch.zeros(4, 3))
    ((first,), (second,)) = model.forward_ranked([[x], [2 * x]])
    assert (first.get_device(), second.get_device()) == (0, 1)
    torch.testing.assert_close(second.cpu(), 2 * whole)
    torch.testing.assert_close(model.forward_ranked_to_cpu([[x], [x]])[1][0], 3 * whole)
    assert [state["calls"].item() for state in states] == [3, 3]
    for save, content in ((model.save_neff, ranked[0]), (model.save_metaneff, ranked[1])):
        assert save(str(tmp_path / "part"))
        assert (tmp_path / "part").read_bytes() == content


def started(ranked, factor):
    """A model of two ranks whose outputs are those of `WEIGHTS` times a factor."""
    model = model_of(ranked)
    weights = [{"weight": factor * shard["weight"]} for shard in WEIGHTS]
    model.initialize([{"calls": torch.zeros(1)} for _ in range(2)], weights, 0)
    return model


def run_at_once(calls, monkeypatch):
    """The results of two calls in threads, of which the second has weights or inputs above 5.

    Rank 0 of the first comes first, then both ranks of the second, then rank 1 of the first.
    """
    run = LoadedProgram.run_resident

    def run_late(program, resident, inputs):
        is_second = any(tensor.max() > 5 for tensor in (*resident, *inputs))
        delays_s = (0.2, 0.4) if is_second else (0.0, 0.8)
        time.sleep(delays_s[program._rank[0]])
        return run(program, resident, inputs)

    monkeypatch.setattr(LoadedProgram, "run_resident", run_late)
    with ThreadPoolExecutor(len(calls)) as threads:
        return [result.result() for result in [threads.submit(call) for call in calls]]


def test_two_models_of_several_ranks_run_at_once(ranked, monkeypatch):
    x = torch.ones(2, 4)
    models = [started(ranked, factor) for factor in (1.0, 10.0)]
    for model in models:
        model.forward([x])  # compiled
    calls = [partial(model.forward, [x]) for model in models]
    results = run_at_once(calls, monkeypatch)
    assert [result[0][0, 0].item() for result in results] == [2 * 12, 2 * 120]


def test_two_calls_of_one_model_at_once_are_apart(ranked, monkeypatch):
    model = started(ranked, 1.0)
    model.forward([torch.ones(2, 4)])
    calls = [partial(model.forward, [factor * torch.ones(2, 4)]) for factor in (1.0, 10.0)]
    results = run_at_once(calls, monkeypatch)
    numbers = [result[0][0, 0].item() for result in results]
    assert numbers in ([2 * 12, 3 * 120], [3 * 12, 2 * 120])  # whichever came first


def test_a_caller_that_is_traced_may_say_that_there_are_weights(ranked):
    model = model_of(ranked)
    model.set_mock_initialized(True)
    assert model.is_initialized()
    model.set_mock_initialized(False)
    assert not model.is_initialized()


@pytest.mark.parametrize(
    ("states", "weights", "start", "match"),
    [
        ([], WEIGHTS[:1], 0, "weights of 1 ranks and states of 0"),
        ([{}], WEIGHTS, 0, "weights of 2 ranks and states of 1"),
        ([], WEIGHTS, 2, "from rank 2 on; legal: 2 of each"),
        ([], WEIGHTS, 0, "has the weights calls, which are not among weight"),
        ([{"calls": torch.zeros(2)}] * 2, WEIGHTS, 0, r"calls of .* is float32\[2\]; legal"),
        ([{"calls": torch.zeros(1)}] * 2, [{}, {}], 0, "has the weights weight"),
    ],
)
def test_tensors_that_are_not_the_programs_are_refused(ranked, states, weights, start, match):
    with pytest.raises(BadInput, match=match):
        model_of(ranked).initialize(states, weights, start)


def test_inputs_of_other_ranks_and_other_programs_are_refused(ranked):
    x = torch.ones(2, 4)
    model = model_of(ranked)
    with pytest.raises(BadInput, match="has no weights yet"):
        model.forward([x])
    states = [{"calls": torch.zeros(1)} for _ in range(2)]
    model.initialize(states, WEIGHTS)
    with pytest.raises(BadInput, match="inputs of 1 ranks for a program that 2 ranks run"):
        model.forward_ranked([[x]])
    with pytest.raises(BadInput, match=r"float32\[2, 5\]; legal: float32\[2, 4\]"):
        model.forward([torch.ones(2, 5)])
    with pytest.raises(BadInput, match="no program that trnsim traced"):
        torch.classes.neuron.SPMDModel(b"mock_neff0", b"", 1, 1).initialize([], [{}])
    with pytest.raises(BadInput, match="tensors of a program that begin b'x'"):
        torch.classes.neuron.SPMDModel(ranked[0], b"x", 2, 2).initialize(states, WEIGHTS)
    with pytest.raises(NotModelled, match="1 of 2 ranks: ranks in other processes"):
        torch.classes.neuron.SPMDModel(*ranked, 1, 2).initialize([], [{}])


class Holder(torch.nn.Module):
    """A module with a program of ranks, as neuronx-distributed's NxDModel is one."""

    def __init__(self, models):
        super().__init__()
        self.models = models

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        if not self.models[0].is_initialized():
            raise ValueError("no weights yet")
        return self.models[0].forward(inputs)

    @torch.jit.export
    def start(
        self, states: list[dict[str, torch.Tensor]], weights: list[dict[str, torch.Tensor]]
    ) -> None:
        for model in self.models:
            model.initialize(states, weights, 0)

    @torch.jit.export
    def ranked(self, inputs: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        return self.models[0].forward_ranked_to_cpu(inputs)


def test_a_module_that_holds_ranks_is_scripted_saved_and_loaded(ranked):
    stream, x = io.BytesIO(), torch.randn(2, 4)
    scripted = torch.jit.script(Holder([model_of(ranked)]))
    torch.jit.save(scripted, stream)
    stream.seek(0)
    whole = x @ torch.ones(4, 3)
    for module in (scripted, torch.jit.load(stream)):
        with pytest.raises(torch.jit.Error, match="no weights yet"):
            module([x])
        for model in module.models:
            model.set_mock_initialized(True)
        assert module([x])[0].tolist() == [[0, 0, 0], [0, 0, 0]]
        for model in module.models:
            model.set_mock_initialized(False)
        module.start([{"calls": torch.zeros(1)} for _ in range(2)], WEIGHTS)
        torch.testing.assert_close(module([x])[0], 3 * whole)
        torch.testing.assert_close(module.ranked([[x], [x]])[1][0], 6 * whole)
