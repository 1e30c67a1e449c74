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


@pytest.mark.parametrize("name", ["generate_hlo", "generate_neff", "get_torch_dtype"])
def test_steps_of_protobufs_are_refused_by_name(name):
    with pytest.raises(NotModelled, match=f"xla_impl.trace.{name} exchanges protobufs"):
        getattr(torch_neuronx.xla_impl.trace, name)(1)


def test_records_hold_what_they_are_given():
    steps = torch_neuronx.xla_impl.trace
    assert steps.NeffArtifacts("a.neff").neff_filename == "a.neff"
    assert steps.HloArtifacts(weights=[1]).weights == [1]
