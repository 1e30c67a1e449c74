import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import io
from multiprocessing.reduction import ForkingPickler

LOADING = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset

class Computed(torch.utils.data.Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, place):
        x = torch.full((256, 256), float(place), device="neuron")
        return (x @ x).sum(), place

if __name__ == "__main__":
    warm = torch.ones(1000, 1000, device="neuron")
    warm @ warm
    values, places = torch.arange(12.0).reshape(6, 2).to("neuron"), torch.arange(6).to("neuron")
    for data in (TensorDataset(values, places), Computed()):
        options = {"num_workers": 2, "multiprocessing_context": sys.argv[1]}
        both = sys.argv[1] == "fork"  # a spawned worker imports PyTorch anew
        for pinned in (False, True) if both else (isinstance(data, Computed),):
            loader = DataLoader(data, batch_size=4, pin_memory=pinned, **options)
            print([(x.device.type, x.flatten().tolist(), y.tolist()) for x, y in loader])
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader_send_tensors_of_the_device(tmp_path, method):
    script = tmp_path / "loading.py"
    script.write_text(LOADING)
    done = subprocess.run(
        [sys.executable, str(script), method], capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip
    held = [
        ("neuron", [float(n) for n in range(8)], [0, 1, 2, 3]),
        ("neuron", [8.0, 9.0, 10.0, 11.0], [4, 5]),
    ]
    sums = [n * n * 256.0**3 for n in range(6)]
    made = [("neuron", sums[:4], [0, 1, 2, 3]), ("neuron", sums[4:], [4, 5])]
    each = 2 if method == "fork" else 1
    assert done.stdout.splitlines() == [str(held)] * each + [str(made)] * each


def sent(value):
    return ForkingPickler.loads(bytes(ForkingPickler.dumps(value)))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 5).t(),
        torch.tensor(2.5),
        torch.empty(0, 4),
        torch.randn(7).bfloat16(),
        torch.tensor([True, False]),
        torch.arange(4)[1::2],
    ],
    ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}",
)
def test_a_tensor_arrives_as_it_was_with_memory_of_its_own(tensor):
    mine = tensor.to("neuron")
    found = sent(mine)
    assert found.device == mine.device
    assert torch.equal(found.cpu(), tensor)
    mine.zero_()
    assert torch.equal(found.cpu(), tensor)


def test_a_parameter_arrives_as_one_and_other_tensors_as_before():
    parameter = torch.nn.Parameter(torch.ones(2, device="neuron"), requires_grad=False)
    found = sent([parameter, torch.ones(2, device="neuron", requires_grad=True)])
    assert [type(one) for one in found] == [torch.nn.Parameter, torch.Tensor]
    assert [one.requires_grad for one in found] == [False, True]
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        sent(torch.ones(2, device="neuron", requires_grad=True) * 2)
    stream = io.BytesIO()
    ForkingPickler(stream).dump(torch.ones(2))  # a tensor of the CPU goes by a file descriptor
    assert b"rebuild_storage" in stream.getvalue()
