import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.xla.neuronx.profiler import profile


def test_the_calls_of_the_context_are_reported(tmp_path):
    with profile(
        neuron_tensorboard_plugin_dir=str(tmp_path), port=9012, ms_duration=10
    ) as profiled:
        torch.ones(2, device="neuron") + 1
    assert "add.Tensor" in (tmp_path / "step.txt").read_text()
    assert profiled.recording.events


def test_a_profile_may_start_later_or_never(tmp_path):
    with profile(neuron_tensorboard_plugin_dir=tmp_path, auto_start=False) as profiled:
        torch.ones(2, device="neuron") + 1
    assert list(tmp_path.iterdir()) == []
    with profile(neuron_tensorboard_plugin_dir=tmp_path, auto_start=False) as profiled:
        profiled.start()
        profiled.start()
        torch.ones(2, device="neuron") * 2
    assert "mul.Tensor" in (tmp_path / "step.txt").read_text()


def test_another_type_is_refused():
    with pytest.raises(BadInput, match="legal: operator, trace"):
        profile(profile_type="memory")
