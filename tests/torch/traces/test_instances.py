from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.call_log import recording
from trnsim.device.hbm import device_memory
from trnsim.device.numerics import numerics
from trnsim.errors import BadInput
from trnsim.torch.traces import exchanges, instances
from trnsim.torch.traces.instances import LoadedProgram, instance_of, load, loading
from trnsim.torch.traces.placement import Placement, placement_of
from trnsim.torch.traces.stored import StoredProgram, StoredTensor

W = [torch.tensor([2.0, -3.0])]
X = torch.ones(2, 2)


def content(program):
    return torch.frombuffer(bytearray(program.to_bytes()), dtype=torch.uint8)


def test_a_call_is_one_of_a_compiled_graph_on_the_instances_core(scaled):
    instance = LoadedProgram(scaled)
    instance.place(placement_of(2))
    with recording() as log:
        (result,) = instance.run(W, [X])
    assert result.tolist() == [[2, -3], [2, -3]]
    assert result.is_cpu
    events = [event for event in log.events if "trace-" in event.call.operation]
    assert [event.core for event in events] == [2]


def test_cores_are_used_in_turn_and_each_holds_the_weights(scaled):
    instance = LoadedProgram(scaled)
    instance.place(Placement((0, 3)))
    before = device_memory(3).live_bytes
    weights = [torch.tensor([2.0, -3.0])]
    instance.run(weights, [X])
    assert device_memory(3).live_bytes == before
    instance.run(weights, [X])
    assert device_memory(3).live_bytes > before


def test_exact_numerics_run_the_program_that_is_timed(scaled):
    with numerics("exact"):
        (result,) = LoadedProgram(scaled).run(W, [X * 0.1])
    torch.testing.assert_close(result, X * 0.1 * W[0])


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ([torch.ones(2, 3)], r"x is float32\[2, 3\]; legal: float32\[2, 2\].*fix: pad the input"),
        ([torch.ones(1, 2)], r"x is float32\[1, 2\].*fix: torch_neuronx.dynamic_batch"),
        (
            [torch.ones(2, 2, dtype=torch.int64)],
            r"x is int64\[2, 2\].*fix: x.to\(torch.float32\)",
        ),
        ([None], r"x is None; legal: float32\[2, 2\].*fix: pass a tensor for x"),
        (
            [torch.ones(2, 2, device="meta")],
            r"x is float32\[2, 2\] on meta; legal: .*fix: make the tensor on the CPU",
        ),
        (
            [torch.ones(2, 2).to_sparse()],
            r"x is float32\[2, 2\] of torch.sparse_coo; legal: .*fix: x.to_dense\(\)",
        ),
        ([], "takes 1 tensors; given 0"),
        ([X, X], "takes 1 tensors; given 2"),
    ],
)
def test_other_inputs_than_were_traced_are_refused(scaled, inputs, match):
    with pytest.raises(BadInput, match=f"(?s){match}") as error:
        LoadedProgram(scaled).run(W, inputs)
    assert "Scaled, traced at model.py:3" in str(error.value)
    assert error.value.line.file == __file__


@pytest.mark.parametrize(
    "weights", [[], [torch.ones(3)], [torch.ones(2, dtype=torch.int32)], [torch.ones(4)[::2]]]
)
def test_weights_of_another_form_are_refused(scaled, weights):
    with pytest.raises(BadInput, match="weight"):
        LoadedProgram(scaled).run(weights, [X])


def test_a_program_of_another_chip_is_refused_when_it_is_loaded(scaled):
    other = replace(scaled, target="trn1", cores=1)
    with pytest.raises(
        BadInput, match=r"(?s)compiled for trn1.*fix: NEURON_PLATFORM_TARGET_OVERRIDE"
    ):
        load(content(other))
    with pytest.raises(BadInput, match="compiled for trn1"):
        LoadedProgram(other).run(W, [X])
    with pytest.raises(BadInput, match="compiled for trn2 with 1 NeuronCore a device"):
        LoadedProgram(replace(scaled, cores=1)).run(W, [X])


def test_a_state_stays_on_the_core_and_is_not_returned(stored):
    class Total(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x):
            return x * 2, self.total + x

    traced, program = stored(Total(), X[0], aliases=[[0, 1]])
    instance, weights = LoadedProgram(program), list(traced.weights.values())
    for _ in range(3):
        (result,) = instance.run(weights, [X[0]])
    assert result.tolist() == [2, 2]
    assert instance.states()[0].tolist() == [3, 3]
    for begin_anew in (instance.forget_weights, lambda: instance.place(instance.placement)):
        begin_anew()
        instance.run(weights, [X[0]])
        assert instance.states()[0].tolist() == [1, 1]


def test_an_instance_is_found_by_its_number_or_made_under_it(scaled):
    program, number = content(scaled), load(content(scaled))
    assert instance_of(number, program) is instance_of(number, program)
    assert instance_of(7, content(scaled)).program == scaled


def test_modules_of_one_number_that_were_read_twice_have_states_of_their_own(scaled):
    first, second = content(scaled), content(scaled)
    number = load(first)
    instances = [instance_of(number, program) for program in (first, second, second, first)]
    assert instances[0] is instances[3]
    assert instances[1] is instances[2]
    assert instances[0] is not instances[1]
    other = content(replace(scaled, title="Other"))
    assert instance_of(number, other).program.title == "Other"


def test_a_lazy_program_has_no_core_until_it_runs(scaled):
    def is_placed(**options):
        return instance_of(load(content(scaled), **options), content(scaled))._placement is not None

    assert is_placed()
    assert is_placed(is_async=True)
    assert not is_placed(is_lazy=True)
    with loading.off():
        assert not is_placed()


def test_a_program_loaded_in_the_background_runs(scaled):
    number = load(content(scaled), is_async=True)
    assert instance_of(number, content(scaled)).run(W, [X])[0].tolist() == [[2, -3], [2, -3]]


def test_batches_need_one_traced_size(scaled, stored):
    assert LoadedProgram(scaled).traced_batch() == 2
    (result,) = LoadedProgram(scaled).run(W, [torch.ones(5, 2)], is_batched=True)
    assert result.shape == (5, 2)
    _, program = stored(lambda x, y: (x, y), (torch.ones(1, 2), torch.ones(3, 2)))
    with pytest.raises(BadInput, match="begin with dimensions 1, 3"):
        LoadedProgram(program).traced_batch()


@pytest.mark.parametrize(
    "program", [torch.ones(3), torch.ones(3, 1, dtype=torch.uint8), torch.ones(3, dtype=torch.int8)]
)
def test_a_program_is_bytes(program):
    with pytest.raises(BadInput, match="legal: bytes"):
        load(program)


def summed_over_ranks(x):
    return exchanges.all_reduce(x, "sum", [[0, 1]]) * 2


@pytest.mark.parametrize("kind", ["fast", "exact"])
def test_ranks_in_threads_exchange_tensors(stored, kind):
    content = stored(summed_over_ranks, torch.ones(2))[1].to_bytes()
    loaded = [LoadedProgram(StoredProgram.from_bytes(content)) for _ in range(2)]
    for rank, instance in enumerate(loaded):
        instance.join_ranks(rank, 2)
    with numerics(kind), ThreadPoolExecutor(2) as threads:
        results = list(
            threads.map(lambda rank: loaded[rank].run([], [torch.full((2,), rank + 1.0)]), range(2))
        )
    assert [part.tolist() for (part,) in results] == [[6, 6], [6, 6]]


def test_a_program_of_several_ranks_does_not_run_as_one(stored):
    instance = LoadedProgram(stored(summed_over_ranks, torch.ones(2))[1])
    with pytest.raises(BadInput, match="exchanges tensors with 2 ranks, and was loaded as one"):
        instance.run([], [torch.ones(2)])
    with pytest.raises(BadInput, match=r"rank 2 of 2 for summed_over_ranks, .*; legal: 0 to 1"):
        instance.join_ranks(2, 2)
    instance.join_ranks(0, 1)
    with pytest.raises(BadInput, match="loaded as one of 1 ranks"):
        instance.run([], [torch.ones(2)])


def test_states_of_the_caller_are_replaced_by_its_outputs(stored):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.nn.Buffer(torch.zeros(2))

        def forward(self, x):
            return x.sum(), self.total + x

    instance = LoadedProgram(stored(Counter(), torch.ones(2), aliases=[[0, 1]])[1])
    weights, state = [torch.zeros(2)], torch.tensor([[1.0, 9.0], [2.0, 9.0]])[:, 0]
    for expected in ([2, 3], [3, 4]):
        result, state = instance.run_with_states(weights, [torch.ones(2)], [state])
        assert result.item() == 2
        assert state.tolist() == expected
    with pytest.raises(BadInput, match=r"keeps the states float32\[2\]; given float32\[3\]"):
        instance.run_with_states(weights, [torch.ones(2)], [torch.ones(3)])
    with pytest.raises(BadInput, match="given none"):
        instance.run_with_states(weights, [torch.ones(2)], [])


def test_states_are_copied_on_the_host_whatever_the_default_device():
    state = torch.arange(6.0).reshape(2, 3).t()
    with torch.device("neuron"):
        copied = instances.with_strides(state, StoredTensor.of(state))
    assert (copied.device, copied.stride()) == (state.device, state.stride())
    assert torch.equal(copied, state)
