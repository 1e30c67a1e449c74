"""Released accelerate finds the device and trains on it, in one process and in two."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
accelerate = pytest.importorskip("accelerate", reason="make clients installs accelerate")

from launched import free_port, run

pytestmark = pytest.mark.filterwarnings("ignore")

SCRIPT = Path(__file__).parent / "two_processes.py"
ONE = ["--num_processes=1"]
TWO = ["--num_processes=2", "--multi_gpu"]
FSDP = [
    "--num_processes=2",
    "--use_fsdp",
    "--fsdp_version=2",
    "--fsdp_auto_wrap_policy=SIZE_BASED_WRAP",
    "--fsdp_min_num_params=1",
    "--fsdp_state_dict_type=SHARDED_STATE_DICT",
]


def fresh(*, cpu, **options):
    """An Accelerator that does not remember the one before it."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=cpu, **options)
    assert accelerator.device.type == ("cpu" if cpu else "neuron")
    return accelerator


def prepared(accelerator):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=4)
    return accelerator.prepare(model, optimizer, loader)


def losses_of(accelerator, model, optimizer, loader):
    found = []
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(batch).pow(2).mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_device_is_found_and_its_losses_are_the_cpus(precision, steps):
    found = {}
    for cpu in (False, True):
        one = fresh(cpu=cpu, mixed_precision=precision, gradient_accumulation_steps=steps)
        found[cpu] = losses_of(one, *prepared(one))
    close = 1e-4 if precision == "no" else 2e-2
    assert found[False] == pytest.approx(found[True], rel=close)


def test_a_saved_state_is_loaded_with_the_random_numbers(tmp_path):
    one = fresh(cpu=False)
    model, optimizer, loader = prepared(one)
    losses_of(one, model, optimizer, loader)
    kept = [parameter.clone() for parameter in model.parameters()]
    one.save_state(tmp_path)
    drawn = torch.rand(4, device="neuron")
    after = losses_of(one, model, optimizer, loader)
    one.load_state(tmp_path)
    for mine, saved in zip(model.parameters(), kept, strict=True):
        assert torch.equal(mine, saved)
    assert torch.equal(torch.rand(4, device="neuron"), drawn)
    assert losses_of(one, model, optimizer, loader) == after


def test_big_models_are_dispatched_to_the_device():
    fresh(cpu=False)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1))
    expected = model(torch.ones(2, 8))
    placed = accelerate.dispatch_model(model, {"0": "neuron:0", "1": "neuron:0"})
    found = placed(torch.ones(2, 8, device="neuron"))
    assert torch.allclose(found.cpu(), expected, atol=1e-6)


def answer(folder, *command, **environment):
    """What the script answered."""
    run([sys.executable, *command], folder, **environment)
    return json.loads((folder / "answer.json").read_text())


@pytest.mark.parametrize(
    ("options", "processes"), [(ONE, 1), (TWO, 2), (FSDP, 2)], ids=["one", "two", "fsdp"]
)
def test_accelerate_launch_trains_as_one_process_on_the_cpu(tmp_path, options, processes):
    launch = ["-m", "accelerate.commands.launch", f"--main_process_port={free_port()}", *options]
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    found = answer(mine, *launch, str(SCRIPT), str(mine), "4")
    whole = [str(SCRIPT), str(theirs), str(4 * processes)]
    expected = answer(theirs, *whole, ACCELERATE_USE_CPU="true")
    assert (found["device"], expected["device"]) == ("neuron", "cpu")
    assert found["ranks"] == list(range(processes))
    assert found["losses"] == pytest.approx(expected["losses"], rel=1e-4)
    assert found["total"] == pytest.approx(expected["total"], rel=1e-3)
