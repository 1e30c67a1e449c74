"""Bad input: each error says what is wrong, and the process is alive and usable afterwards.

All of it in one process, in a row, so that what one mistake leaves behind meets the next one.
"""

import pytest

PROGRAM = """
import jax, jax.export, jax.numpy as jnp, numpy as np
from importlib.util import find_spec
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def alive():
    x = jnp.arange(6.0).reshape(2, 3)
    assert float(jax.jit(lambda a: (a @ a.T).sum())(x + 0)) == 83.0, "the device computes"

def caught(name, function, *given):
    try:
        function(*given)
    except Exception as error:
        print(f"{name}| {type(error).__name__}: {' '.join(str(error).split())}")
    else:
        print(f"{name}| no error")
    alive()

def raising(*arrays):
    raise TypeError("mine")

def nested(depth, x):
    return raising(jnp.ones(3), x + 1) if depth == 0 else nested(depth - 1, x + jnp.ones(3))

caught("temporaries", lambda: raising(jnp.ones(3), jnp.ones(4) + 1))
caught("nested", nested, 30, jnp.ones(3))
caught("in jit", jax.jit(lambda a: raising(a + jnp.ones(3))), jnp.ones(3))
caught("in grad", jax.grad(lambda a: raising(jnp.ones(3) * a)), 1.0)
caught("in vmap", jax.vmap(lambda a: raising(jnp.ones(3) * a)), jnp.ones(3))
caught("in scan", lambda: jax.lax.scan(lambda c, a: raising(c, jnp.ones(2)), 0.0, jnp.ones(3)))
caught("in a generator", lambda: [raising(jnp.full(3, at)) for at in range(3)])
caught("in finally", lambda: (_ for _ in ()).throw(KeyError(jnp.ones(3) + 1)))

deleted = jnp.ones(3)
deleted.delete()
caught("deleted", lambda: deleted + 1)
donated = jnp.ones(3)
jax.jit(lambda a: a + 1, donate_argnums=0)(donated)
caught("donated", lambda: np.asarray(donated))

on_cpu = jax.device_put(jnp.ones(3), jax.devices("cpu")[0])
committed = jax.device_put(jnp.ones(3), jax.devices()[0])
caught("mixed", lambda: on_cpu + committed)
caught("mixed cores", lambda: committed + jax.device_put(jnp.ones(3), jax.devices()[1]))

caught("dtype", lambda: jnp.ones(3, "datetime64[s]"))
caught("string", lambda: jax.device_put(np.array(["a"])))
caught("memory", lambda: jnp.zeros((1 << 18, 1 << 15)))
caught("memory, of the host", lambda: jax.device_put(np.broadcast_to(np.int8(0), (25 << 30,))))
caught("mesh", lambda: jax.make_mesh((4, 4), ("x", "y")))
row = NamedSharding(Mesh(jax.devices(), "x"), P("x"))
caught("split", lambda: jax.device_put(jnp.ones(6), row))
caught("pmap", lambda: jax.pmap(lambda a: a)(jnp.ones(16)))
if find_spec("flatbuffers"):
    exported = jax.export.export(jax.jit(lambda a: a + 1), platforms=["neuron"])(jnp.ones(3))
    good, load = exported.serialize(), jax.export.deserialize
    caught("exported", lambda: load(bytearray(b"no program at all")))
    caught("corrupt", lambda: load(good[: len(good) // 2]).call(jnp.ones(3)))
    spoilt = good.copy()
    start = good.find(b"StableHLO_v") + 30
    spoilt[start : start + 40] = bytes(40)
    caught("spoilt", lambda: load(spoilt).call(jnp.ones(3)))
    caught("whole", lambda: load(good).call(jnp.ones(3)))
caught("token", lambda: jax.lax.create_token()._buf._value)
caught("custom", lambda: jax.jit(lambda a: jax.ffi.ffi_call("nobody", a)(a))(jnp.ones(3)))
options = {"xla_no_such_flag": True}
caught("options", jax.jit(lambda a: a + 2, compiler_options=options), jnp.ones(3))
print("end")
"""

EXPECTED = {
    **dict.fromkeys(
        ("temporaries", "nested", "in jit", "in grad", "in vmap", "in scan", "in a generator"),
        "TypeError: mine",
    ),
    "in finally": "KeyError: ",
    "deleted": "has been deleted",
    "donated": "has been deleted",
    "mixed": "Received incompatible devices",
    "mixed cores": "Received incompatible devices",
    "dtype": "datetime64",
    "string": "not a valid JAX array type",
    "memory": "RESOURCE_EXHAUSTED: neuron:0 ran out of memory: 32.00 GiB asked for",
    "memory, of the host": "RESOURCE_EXHAUSTED: neuron:0 ran out of memory: 25.00 GiB asked for",
    "mesh": "must be >= the product of mesh_shape (4, 4)",
    "split": "divisible",
    "pmap": "squeeze",
    "token": "token",
    "custom": "NOT_FOUND: No FFI handler registered for nobody",
    "options": "INVALID_ARGUMENT: No such compile option: 'xla_no_such_flag'",
}
EXPORTED = {
    "exported": "unpack_from requires a buffer",
    "corrupt": "unpack_from requires a buffer",
    "spoilt": "Failed to deserialize StableHLO",
    "whole": "no error",
}


@pytest.fixture(scope="module")
def printed():
    """What the program says of each mistake."""
    import os  # noqa: PLC0415
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    variables = {"JAX_PLATFORMS": "neuron,cpu", "NEURON_RT_NUM_CORES": "8"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("end\n")
    return dict(line.split("| ", 1) for line in done.stdout.splitlines() if "| " in line)


@pytest.mark.slow_cases("temporaries")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_mistake_is_an_error_and_the_process_goes_on(printed, name):
    assert EXPECTED[name] in printed[name]
    assert "no error" not in printed[name]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_corrupt_exported_file_is_an_error_and_a_whole_one_is_not(printed, name):
    pytest.importorskip("flatbuffers", reason="jax.export writes files with flatbuffers")
    assert EXPORTED[name] in printed[name]
    assert (name == "whole") == ("no error" in printed[name])
