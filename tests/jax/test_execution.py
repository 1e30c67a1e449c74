import jax
import numpy as np
import pytest
from jaxlib import xla_client

from trnsim.errors import BadInput
from trnsim.jax.execution import ArrayType, DeviceProgram
from trnsim.jax.host_client import as_numpy, host


def program(function, *given, devices=1, donate=()):
    """A function as JAX sends it to the plugin."""
    lowered = jax.jit(function, donate_argnums=donate).lower(*given)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    return DeviceProgram(
        str(lowered.compiler_ir("stablehlo")).encode(), options.SerializeAsString()
    )


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_program_knows_its_arguments_and_results():
    found = program(lambda a, b: (a @ b.T, a.astype(np.int8)), X, X)
    assert found.arguments == [ArrayType((2, 3), np.dtype(np.float32))] * 2
    assert found.results == [
        ArrayType((2, 2), np.dtype(np.float32)),
        ArrayType((2, 3), np.dtype(np.int8)),
    ]
    assert (found.replicas, found.partitions, found.cores) == (1, 1, [0])
    assert found.name == "jit__lambda"


def test_it_computes():
    ((result,),) = program(lambda a: a * 2, X).run([0], [[host().put(X, 0)]])
    np.testing.assert_array_equal(as_numpy(result), X * 2)


def test_it_runs_on_any_device():
    found = program(lambda a: a - 1, X)
    ((result,),) = found.run([3], [[host().put(X, 3)]])
    assert result.devices() == {host().devices[3]}


def test_it_knows_which_arguments_it_takes_over():
    assert program(lambda a, b: a + b, X, X, donate=(1,)).donors == {1}
    assert program(lambda a: a, X).donors == frozenset()


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(BadInput, match="9 devices, of 8 that there are"):
        program(lambda a: a, X, devices=9)


def test_a_corrupt_program_is_refused():
    with pytest.raises(Exception, match=r"(?i)parse|error"):
        DeviceProgram(b"not a module", xla_client.CompileOptions().SerializeAsString())
