import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput
from trnsim.torch.models.host_reads import RefusedHostReads
from trnsim.torch.models.traced import trace_module

KEPT = torch.tensor([3.0])


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return [self.function(x)]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("numpy", lambda x: x * float(x.numpy().max())),
        ("numpy", lambda x: torch.from_numpy(x.cpu().detach().numpy())),
        ("__array__", lambda x: x * float(np.asarray(x).max())),
        ("tolist", lambda x: x * x.tolist()[0]),
        ("__dlpack__", torch.from_dlpack),
    ],
)
def test_a_read_of_a_traced_tensors_memory_is_refused(name, read):
    with pytest.raises(BadInput, match=rf"tensor.{name}\(\) of a traced .* \[2\]") as refused:
        trace_module(Calls(read), (torch.ones(2),))
    assert refused.value.line.file == __file__


def test_a_tensor_with_values_is_read():
    with RefusedHostReads():
        assert KEPT.numpy().tolist() == KEPT.tolist() == [3.0]
