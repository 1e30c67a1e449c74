"""What XLA's partitioner writes, and a Llama whose parameters lie in parts on all cores."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from jaxlib import xla_client

from trnsim.errors import NotModelled
from trnsim.jax import private
from trnsim.jax.partitioning import device_program

EXAMPLES = Path(__file__).parents[2] / "examples"

MEASURED = """
import json, sys
sys.path.insert(0, {examples!r})
import jax
import numpy as np
import llama_sharded_jax as llama
from trnsim.device.call_log import Recording, recordings
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time

{smaller}
tokens = llama.batches(1)[0]
train, state = llama.step_over(llama.mesh_of({fsdp}, {tp}))
recording = Recording()
recordings.append(recording)
fast = jax.device_get(train(state, tokens))
recordings.remove(recording)
params = llama.parameters()
alone = (params, jax.tree.map(np.zeros_like, params)), tokens
one = jax.device_get(jax.jit(llama.step)(*jax.device_put(alone, jax.devices("cpu")[0])))

def worst(found):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(one), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)

found = {{"fast": worst(fast), "missing": list(step_time(recording, "trn2").missing)}}
found["collectives"] = [[one.kind, one.nbytes, one.ranks] for one in recording.collectives]
if {is_exact}:
    with numerics("exact") as on_host:
        found["exact"] = worst(jax.device_get(train(state, tokens)))
    found["on_host"] = dict(on_host)
print(json.dumps(found))
"""


def measured(ran, fsdp, tp, *, smaller="", is_exact=False):
    options = {"examples": str(EXAMPLES), "smaller": smaller, "is_exact": is_exact}
    program = MEASURED.format(fsdp=fsdp, tp=tp, **options)
    cores = {"NEURON_RT_NUM_CORES": str(fsdp * tp), "JAX_PLATFORMS": "neuron,cpu"}
    return json.loads(ran(program, **cores).stdout)


def table(found):
    """How often each exchange is made: by kind, bytes and group."""
    rows = [(kind, nbytes, tuple(group)) for kind, nbytes, group in found["collectives"]]
    return {row: rows.count(row) for row in rows}


@pytest.mark.slow
def test_a_llama_over_eight_cores(ran):
    found = measured(ran, 4, 2, is_exact=True)
    assert found["fast"] < 1e-5
    assert found["exact"] < 1e-5
    assert not found["on_host"]
    assert not found["missing"]
    fsdp, tp = (0, 2, 4, 6), (0, 1)
    square, wide, words = 48 * 24 * 4, 48 * 48 * 4, 96 * 48 * 4  # bytes of what a core gathers
    rows = 2 * 16 * 48 * 4  # of the sequences of a core
    shown = table(found)
    # Two layers have four square weights and three wide ones, gathered ahead and their gradients
    # summed into shares behind; with the backward pass's own, the table of words has one each.
    assert shown["all_gather", square, fsdp] == shown["reduce_scatter", square, fsdp] == 2 * 4
    assert shown["all_gather", wide, fsdp] == shown["reduce_scatter", wide, fsdp] == 2 * 3
    assert shown["all_gather", words, fsdp] == 1
    # Over heads and columns: after `o` and `down`, and the gradient of what six weights read.
    assert {kind for kind, _, group in shown if tuple(group) == tp} == {"all_reduce"}
    assert shown["all_reduce", rows, tp] >= 2 * 2 + 2 * 5
    assert shown["all_reduce", 4, fsdp] == 1  # the loss


@pytest.mark.slow
def test_axes_that_are_four_and_six_long(ran):
    found = measured(ran, 4, 6, smaller="llama.LAYERS, llama.TOKENS = 1, 5")
    assert found["fast"] < 1e-5
    assert not found["missing"]
    groups = {(kind, tuple(group)) for kind, _, group in found["collectives"]}
    assert ("reduce_scatter", (0, 6, 12, 18)) in groups
    assert ("all_reduce", (0, 1, 2, 3, 4, 5)) in groups


def loader(devices, *, refused=""):
    """Compiles a product over CPU devices; says no to one option."""
    client, options = private.cpu_client(devices), xla_client.CompileOptions()
    private.set_assignment(options, np.arange(devices, dtype=np.int32).reshape(1, devices))
    options.executable_build_options.use_spmd_partitioning = devices > 1
    module = jax.jit(lambda x: x @ x.T).lower(np.ones((4, 8), np.float32)).compiler_ir("stablehlo")
    seen = []

    def load(overrides):
        seen.append(dict(overrides))
        if refused in seen[-1]:
            raise ValueError(f"No such compile option: {refused!r}")
        options.env_option_overrides = list(overrides)
        return client.compile_and_load(module, private.device_list(client.devices()), options)

    return load, seen


def test_an_option_that_jaxlib_does_not_know_is_left_out():
    name = "xla_enable_rgv3_materialization"
    load, seen = loader(2, refused=name)
    assert "stablehlo.dot" in str(private.module_of(device_program(load)))
    assert [name in one for one in seen] == [True, False]
    assert not Path(seen[0]["xla_dump_to"]).exists()


def test_a_record_that_cannot_be_had_says_why(monkeypatch):
    load, seen = loader(2, refused="xla_dump_to")
    refused = "^XLA does not say what each device computes of it: "
    with pytest.raises(NotModelled, match=refused + "No such compile option: 'xla_dump_to'"):
        device_program(load)
    assert len(seen) == 1
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(NotModelled, match=refused + r"\[Errno 2\] No such file"):
        device_program(load)
    monkeypatch.undo()
    monkeypatch.setattr(private, "stablehlo_of", lambda _: int("no number"))
    with pytest.raises(NotModelled, match=refused + "invalid literal"):
        device_program(loader(2, refused="nothing")[0])


def test_a_program_that_nothing_splits_is_refused():
    load, _ = loader(1)
    with pytest.raises(NotModelled, match="device computes of it: it is one device's program"):
        device_program(load)
