"""JAX in the state of the instance: what a program uses and does, and faults that it meets."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("neuron")

FED = """
import json
import jax, jax.numpy as jnp
import numpy as np
from trnsim.device import watch
from trnsim.device.hbm import device_memory
from trnsim.instance.state.folder import listen, state_folder
from trnsim.instance.state.reader import read_all

device = jax.devices("neuron")[1]
kept = jax.device_put(jnp.ones((256, 256), jnp.float32), device)
listen(state_folder(), 30)
watch.current_watch().writer.look()
product = jax.jit(lambda x: jnp.tanh(x @ x + np.arange(256, dtype=np.float32)) @ x)
for _ in range(3):
    made = product(kept).block_until_ready()
watch.current_watch().writer.look()
(record,) = read_all(state_folder())
print(json.dumps({
    "tool": record.tool, "cores": record.cores, "instance": record.instance, "lnc": record.lnc,
    "completed": record.executions["completed"], "flop": record.flop[5],
    "busy": record.busy_s[5]["pe"], "elapsed": record.elapsed_s[5],
    "memory": record.memory_bytes[5], "held": device_memory(1).live_bytes,
    "others": [record.memory_bytes[core] for core in (4, 6, 7)],
}))
"""


@pytest.mark.slow
def test_a_jitted_program_appears_with_its_cores_executions_and_memory(ran, tmp_path):
    done = ran(
        FED,
        JAX_PLATFORMS="neuron,cpu",
        TRNSIM_STATE=str(tmp_path / "state"),
        NEURON_RT_VISIBLE_CORES="4-7",
    )
    found = json.loads(done.stdout)
    assert (found["tool"], found["cores"], found["lnc"]) == ("jax", [4, 5, 6, 7], 2)
    assert found["instance"] == "trn2.48xlarge"  # the smallest that has core 7
    assert found["completed"] == 3
    assert found["flop"] == 3 * 2 * 2 * 256**3
    assert 0 < found["busy"] < found["elapsed"]
    memory = found["memory"]
    assert memory["tensors"] == found["held"] >= 2 * 4 * 256**2
    # Of the program: the numbers that it adds, and a page for what lies between its products.
    assert (memory["constants"], memory["model_shared_scratchpad"]) == (256 * 4, 64 << 20)
    assert {kind for one in found["others"] for kind in one if one[kind]} == {"model_code"}
    assert not list((tmp_path / "state").glob("*.json"))


MEETS = """
import time
import jax, jax.numpy as jnp
import numpy as np
from trnsim.device import watch
from trnsim.instance.state import hardware
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.reader import read_all

device = jax.devices("neuron")[1]
product = jax.jit(lambda x: x @ x)
kept = product(jax.device_put(np.ones((4, 4), np.float32), device)).block_until_ready()
hardware.inject(state_folder(), hardware.StoredFault("hbm-ecc", 1, 1, time.time(), None))
watch.current_watch().writer.look()
met = []
for use in (
    lambda: product(kept),
    lambda: jax.device_put(np.ones(2, np.float32), device),
    lambda: np.asarray(kept),
):
    try:
        use()
    except (RuntimeError, ValueError) as error:  # ValueError is what a copy to a device raises
        met.append("NRT_EXEC_HW_ERR_HBM_UE (1201) on device 1, core 1 (neuron:1)" in str(error))
(record,) = read_all(state_folder())
print(met, record.executions["completed_with_err"], record.errors["hardware"])
jax.device_put(np.ones(2, np.float32), jax.devices("neuron")[0])  # another core of the device
hardware.clear(state_folder())
time.sleep(0.01)
watch.current_watch().writer.look()
print(np.asarray(product(kept))[0, 0])
"""


@pytest.mark.slow
def test_a_program_and_its_copies_meet_a_fault_as_the_runtimes_error(ran, tmp_path):
    done = ran(
        MEETS,
        JAX_PLATFORMS="neuron,cpu",
        TRNSIM_STATE=str(tmp_path / "state"),
        NEURON_RT_VISIBLE_CORES="4-7",
    )
    assert done.stdout == "[True, True, True] 3 3\n64.0\n"


@pytest.mark.slow
def test_an_instance_that_is_not_emulated_is_named(ran):
    program = "import jax; jax.devices('neuron')"
    done = ran(program, expected=1, JAX_PLATFORMS="neuron", TRNSIM_INSTANCE="inf1.xlarge")
    assert "TRNSIM_INSTANCE=inf1.xlarge has Inferentia1, a chip that is catalogued" in done.stderr
    assert "legal: inf2.xlarge, " in done.stderr
