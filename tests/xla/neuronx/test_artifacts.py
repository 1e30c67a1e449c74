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


@pytest.mark.parametrize("name", ["generate_hlo", "generate_neff", "get_torch_dtype"])
def test_steps_of_protobufs_are_refused_by_name(name):
    with pytest.raises(NotModelled, match=f"xla_impl.trace.{name} exchanges protobufs"):
        getattr(torch_neuronx.xla_impl.trace, name)(1)


def test_records_hold_what_they_are_given():
    steps = torch_neuronx.xla_impl.trace
    assert steps.NeffArtifacts("a.neff").neff_filename == "a.neff"
    assert steps.HloArtifacts(weights=[1]).weights == [1]
