"""What a program of PyTorch does on a device that has failed: all of it meets the fault."""

import json

import pytest
from forked import python

USES = {
    "operator": "kept + kept",
    "operator in place": "kept.mul_(1)",
    "product": "kept @ kept",
    "zeros": "torch.zeros(2, device=kept.device)",
    "random numbers": "torch.rand(2, device=kept.device)",
    "histogram": "torch.histc(kept)",
    "several at once": "torch._foreach_add([kept, kept], 1.0)",
    "attention": "torch.nn.functional.scaled_dot_product_attention(*[kept[None, None]] * 3)",
    "graph": "compiled(kept)",
    "kernel": "copied(kept)",
    "to the host": "kept.cpu()",
    "to numpy": "kept.numpy(force=True)",
    "item": "kept[0, 0].item()",
    "list": "kept.tolist()",
    "print": "repr(kept)",
    "to the device": "torch.ones(2).to(kept.device)",
    "tensor": "torch.tensor([1, 2], device=kept.device)",
    "storage": "torch.UntypedStorage([1, 2], device=kept.device)",
    "cast": "kept.bfloat16()",
    "clone": "kept.clone()",
    "larger memory": "torch.empty(2, device=kept.device).resize_(64)",
    "from another device": "other.to(kept.device)",
    "to another device": "kept.to(other.device)",
    "onto another device": "other.copy_(kept)",
    "all_reduce": "dist.all_reduce(kept)",
    "broadcast": "dist.broadcast(kept, src=0)",
    "all_gather": "dist.all_gather([torch.empty_like(kept)], kept)",
    "reduce_scatter": "dist.reduce_scatter_tensor(torch.empty_like(kept), kept)",
}
"""What uses the device of `kept`."""
PROGRAM = """
import json, sys, time
import torch, torch.distributed as dist
import nki, nki.language as nl, nki.isa as nisa
from trnsim.device import watch
from trnsim.device.faults import HardwareFault
from trnsim.instance.state import hardware
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.reader import read_all

@nki.jit
def copied(a):
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=a)
    return result

dist.init_process_group("neuron", store=dist.HashStore(), rank=0, world_size=1)
compiled = torch.compile(lambda x: x + 1, backend="neuron")
kept, other = (torch.ones(4, 4, device=f"neuron:{core}") for core in (1, 0))
uses = {name: eval(f"lambda: {text}") for name, text in USES.items()}
uses["barrier"] = dist.barrier

def meeting(core):
    met = []
    for name, use in uses.items():
        try:
            use()
        except HardwareFault as error:
            assert f"(1201) on device 0, core {core} (neuron:{core})" in str(error), error
            met.append(name)
    return met

place, found = state_folder(), {}
for core in (1, 0):
    hardware.inject(place, hardware.StoredFault("hbm-ecc", 0, core, time.time(), None))
    watch.current_watch().writer.look()
    found[f"of {core}"] = meeting(core)
    if core:
        (record,) = read_all(place)
        found["executions"] = record.executions["completed_with_err"]
        found["errors"] = record.errors["hardware"]
        counted = hardware.counters(hardware.injected_faults(place), 1)[0]
        found["counted"] = counted["mem_ecc_uncorrected"]
        found["logged"] = (place / hardware.LOG).read_text().count("HBM_UNCORRECTABLE_ERROR")
    hardware.clear(place)
    time.sleep(0.01)
    watch.current_watch().writer.look()
found["after"] = meeting(-1)
print(json.dumps(found))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    path = folder / "uses.py"  # a file, as PyTorch's compiler and NKI's read the source
    path.write_text(f"USES = {USES!r}\n{PROGRAM}")
    program = f"import torch, runpy; runpy.run_path({str(path)!r})"
    state = str(folder / "state")
    done = python(program, check=True, TRNSIM_STATE=state, NEURON_RT_VISIBLE_CORES="0-1")
    return json.loads(done.stdout)


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_device_meets_its_fault(found, use):
    assert use in found["of 1"]


def test_of_another_device_only_what_uses_that(found):
    between = [use for use in USES if "another device" in use]
    assert found["of 0"] == [*between, "barrier"]  # which has no tensor: it is of the first
    assert found["after"] == []


def test_the_state_agrees_with_the_program(found):
    """Executions and errors count each meeting; the counter and the log have one fault."""
    assert found["of 1"] == list(USES)
    assert found["executions"] == found["errors"] == len(USES)
    assert found["counted"] == found["logged"] == 1
