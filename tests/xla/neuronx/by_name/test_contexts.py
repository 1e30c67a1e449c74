import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx.contexts

from trnsim.torch.traces.instances import loading


def test_nothing_is_loaded_within_the_context():
    with torch_neuronx.contexts.disable_nrt_load():
        assert loading.is_off
    assert not loading.is_off
