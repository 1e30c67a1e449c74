import pickle

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

from trnsim.errors import BadInput, NotModelled


@pytest.mark.slow
def test_a_trace_in_steps_goes_through_a_file_and_a_pickle(tmp_path):
    steps = torch_neuronx.xla_impl.trace
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    parts = steps._trace(model, x, None, {}, str(tmp_path), "--auto-cast=none", False)
    neff, metaneff, flattener, packer, weights = pickle.loads(pickle.dumps(parts))  # noqa: S301  ours
    module = steps.create_neuron_model(neff, metaneff, flattener, packer, x, {}, weights)
    assert torch.equal(module(x), model(x))
    other = tmp_path / "other.neff"
    other.write_bytes(b"\x1f\x8b")
    with pytest.raises(BadInput, match="a NEFF of AWS's compiler"):
        steps.create_neuron_model(str(other), metaneff, flattener, packer, x, {}, weights)


def to_the_larger(tensors: list[torch.Tensor]):
    index = 0
    if tensors[0].shape[0] > 2:
        index = 1
    return tensors, torch.tensor([index])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_buckets_traced_in_steps_share_their_weights(tmp_path):
    steps = torch_neuronx.xla_impl.trace
    model, inputs = torch.nn.Linear(4, 3), [torch.randn(2, 4), torch.randn(5, 4)]
    models = []
    for rank, x in enumerate(inputs):
        parts = steps._trace(model, x, None, {}, str(tmp_path / str(rank)), "--auto-cast=none")
        models.append(((tmp_path / str(rank) / "graph.neff").read_bytes(), parts[1]))
    _, _, flattener, packer, weights = pickle.loads(pickle.dumps(parts))  # noqa: S301  ours
    config = torch_neuronx.BucketModelConfig(lambda *_: torch.jit.script(to_the_larger))
    module = torch_neuronx.xla_impl.bucket_trace.create_bucket_model(
        models, config, flattener, packer, weights, [{}, {}]
    )
    for x in inputs:
        assert torch.equal(module(x), model(x))
    first, second = module.bucket_model_executor.models
    assert first.weights[0].data_ptr() == second.weights[0].data_ptr()
    with pytest.raises(BadInput, match="a NEFF of AWS's compiler"):
        torch_neuronx.xla_impl.bucket_trace.create_bucket_model(
            [(b"\x1f\x8b", b"")], config, flattener, packer, weights, [{}]
        )


class Masked(torch.nn.Module):
    """A linear layer, with a mask that no state_dict has and a count of its calls."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.mask = torch.nn.Buffer(torch.tensor([1.0, 0.0, 2.0]), persistent=False)
        self.calls = torch.nn.Buffer(torch.zeros(1))

    def forward(self, x, shift=None):
        self.calls += 1
        y = self.layer(x) * self.mask
        return {"y": y if shift is None else y + shift, "calls": self.calls * 1}


def test_a_program_in_the_place_of_hlo_has_its_tensors_and_what_makes_lists_of_them():
    steps, model = torch_neuronx.xla_impl.trace, Masked()
    inputs = {"x": torch.randn(2, 4), "shift": torch.randn(3)}
    made = steps.generate_hlo(model, inputs, inline_weights_to_neff=False, return_weights=False)
    assert made.weights is None
    assert made.weight_name_to_idx == {"layer.weight": 2, "layer.bias": 3}
    assert list(made.metaneff.constants) == ["mask"]
    assert made.flattener.layout == (0, 1)
    assert made.flattener(["a", "b"]) == ["a", "b"]
    made.flattener.layout, made.flattener.exclude = [1, 0], [0]
    assert made.flattener(["a", "b"]) == ["b"]
    assert made.packer(["a", "b"]) == {"y": "a", "calls": "b"}


class Replaced(torch.nn.Module):
    """A buffer in whose place forward sets another, and an argument that nothing reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1), persistent=False)
        self.register_buffer("kept", torch.ones(1), persistent=False)

    def forward(self, x, unread, more):
        del unread
        self.cache = torch.add(self.cache, more)
        return x + self.cache * self.kept


def test_a_buffer_that_forward_replaces_is_a_state_and_an_unread_input_left_out():
    model = Replaced()
    inputs = {"x": torch.ones(1), "unread": torch.ones(3), "more": torch.ones(1)}
    made = torch_neuronx.xla_impl.trace.generate_hlo(model, inputs, None)
    kinds = {tensor.name: tensor.type.name for tensor in made.metaneff.input_tensors}
    assert kinds == {"x": "USER_INPUT", "more": "USER_INPUT", "cache": "INPUT_STATE"}
    assert (made.flattener.layout, made.flattener.exclude) == ((0, 1, 2), [1])
    assert list(made.metaneff.constants) == ["kept"]
    assert torch.equal(model.cache, torch.zeros(1))
    ranks = torch.classes.neuron.SPMDModel(
        made.hlo_module.SerializeToString(), made.metaneff.SerializeToString(), 1, 1
    )
    ranks.initialize([{"cache": torch.zeros(1, device="neuron")}], [{}])
    for more, total in ((5.0, 5.0), (10.0, 15.0)):
        values = [torch.ones(1), torch.ones(3), torch.tensor([more])]
        assert made.packer(ranks.forward(made.flattener(values))).item() == 1 + total


@pytest.mark.slow
def test_a_program_goes_through_the_compiler_to_ranks(tmp_path):
    libneuronxla = pytest.importorskip("libneuronxla")
    steps, model, x = torch_neuronx.xla_impl.trace, Masked(), torch.randn(2, 4)
    made = steps.generate_hlo(model, {"x": x}, {model.calls: 1})
    neff = libneuronxla.neuron_xla_compile(
        made.hlo_module.SerializeToString(), "--auto-cast=none -O1", use_cache=False,
        work_dir=tmp_path,
    )  # fmt: skip
    assert [path.name for path in sorted(tmp_path.glob("*/*"))][:2] == [
        "model.hlo_module.pb",
        "model.neff",
    ]
    ranks = torch.classes.neuron.SPMDModel(neff, made.metaneff.SerializeToString(), 1, 1)
    weights = {name: value for name, value in model.state_dict().items() if name != "calls"}
    states = [{"calls": torch.zeros(1, device="neuron")}]
    ranks.initialize(states, torch.ops.neuron._parallel_load([weights]))
    for calls in (1, 2):
        result = made.packer(ranks.forward(made.flattener([x])))
        assert torch.equal(result["y"], model.layer(x) * model.mask)
        assert states[0]["calls"].item() == calls


def test_a_compiler_of_hlo_is_refused_by_name():
    with pytest.raises(NotModelled, match="generate_neff compiles HLO"):
        torch_neuronx.xla_impl.trace.generate_neff(1)


def test_records_hold_what_they_are_given():
    steps = torch_neuronx.xla_impl.trace
    assert steps.NeffArtifacts("a.neff").neff_filename == "a.neff"
    assert steps.HloArtifacts(weights=[1]).weights == [1]
