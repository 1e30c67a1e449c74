import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

TRAINING = """
import os, sys, torch
import torch.distributed as dist
from torch import nn

rank = int(sys.argv[1])
dist.init_process_group("neuron", rank=rank, world_size=2, init_method=f"file://{sys.argv[2]}")
torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4, momentum=0.3))
model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to("neuron")
x = torch.randn(5, 3, 7)
mine = x[:2] if rank == 0 else x[2:]  # batches of different lengths
out = model(mine.to("neuron"))
(out * torch.arange(7.0).to("neuron")).square().sum().backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
state = [p.grad.cpu() for p in model.parameters()]
state += [model[1].running_mean.cpu(), model[1].running_var.cpu(), out.detach().cpu()]
torch.save(state, f"{sys.argv[2]}-{rank}")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_normalize_over_both_batches(tmp_path):
    folder = tmp_path / "meeting"
    running = [
        subprocess.Popen([sys.executable, "-c", TRAINING, str(rank), str(folder)])
        for rank in range(2)
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 1), torch.nn.BatchNorm1d(4, momentum=0.3))
    x = torch.randn(5, 3, 7)
    out = model(x)
    (out * torch.arange(7.0)).square().sum().backward()
    expected = [p.grad for p in model.parameters()]
    expected += [model[1].running_mean, model[1].running_var]
    for rank, part in ((0, out[:2]), (1, out[2:])):
        found = torch.load(f"{folder}-{rank}")
        for mine, theirs in zip(found, [*expected, part.detach()], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_processs_statistics_are_those_of_its_channels(shape, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    with recording() as found:
        mean, invstd = torch.batch_norm_stats(x.to("neuron"), 1e-5)
        out = torch.batch_norm_elemt(x.to("neuron"), None, None, mean, invstd, 1e-5)
    others = [dim for dim in range(x.dim()) if dim != 1]
    torch.testing.assert_close(mean.cpu(), x.float().mean(others))
    expected = torch.nn.functional.batch_norm(x.float(), None, None, training=True)
    assert out.dtype is dtype
    torch.testing.assert_close(out.cpu().float(), expected, rtol=1e-2, atol=1e-2)
    assert not step_time(found, "trn2").missing
