"""Kernels in compiled graphs: both have one number of cores since NKI 0.7."""

import nki
import nki.language as nl
import pytest

from trnsim.behaviours.chosen import pinned

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.load(x))
    return out


def test_a_graph_of_pytorch_refuses_at_the_call():
    x = torch.ones(4, 4).to("neuron")

    def compiled(kernel):
        torch._dynamo.reset()
        return torch.compile(lambda x: kernel(x) + 1, backend="neuron")

    assert copied(x).sum() == 16  # launched by itself
    with pytest.raises(Exception, match="NCC_EVRF066: the kernel copied has LNC=1") as caught:
        compiled(copied)(x)
    assert f"{__file__}:" in str(caught.value)
    assert compiled(copied[2])(x).sum() == 32
    with pinned("0.6", "--nki"):
        assert compiled(copied)(x).sum() == 32
    torch._dynamo.reset()
