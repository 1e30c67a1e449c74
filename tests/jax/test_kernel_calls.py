"""The custom call of a kernel, and who can find the kernel again."""

import base64
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nki_kernels import add, double

from trnsim.device.kernel_call import KernelCall
from trnsim.errors import NotModelled
from trnsim.jax.kernel_calls import TARGET, call_of, config_of
from trnsim.jax.lowered import ArraySpec


def call(kernel, *shapes):
    specs = [ArraySpec(shape, np.dtype(np.float32)) for shape in shapes]
    _, tree = jax.tree_util.tree_flatten((shapes and tuple(specs), {}))
    return KernelCall.of(kernel, specs, tree)


def test_a_call_is_found_again_by_its_configuration():
    one, other = call(double, (4, 3)), call(add, (4, 3), (4, 3))
    configs = [config_of(one, ["x"], 1), config_of(other, ["a", "b"], 1)]
    assert [call_of(text) for text in configs] == [one, other]
    assert config_of(call(double, (4, 3)), ["x"], 1) == configs[0]  # so that programs are equal
    known = json.loads(base64.b64decode(configs[1]))
    assert known["klir_binary"]["input_names"] == ["a", "b"]
    assert (known["kernel_version"], known["func_name"], known["grid"]) == (1, "add", [])
    assert known["has_collectives"] is False


def encoded(binary):
    known = {"func_name": "theirs", "klir_binary": {"binary": binary}}
    return base64.b64encode(json.dumps(known).encode()).decode()


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (encoded("folder/theirs.klir"), "theirs"),
        (encoded("trnsim:0123456789abcdef0123456789abcdef/0"), "theirs"),
        (encoded(None), "theirs"),
        ("", r"\(no name\)"),
        ("not base64", r"\(no name\)"),
        (base64.b64encode(b"[1]").decode(), r"\(no name\)"),
    ],
)
def test_a_kernel_of_another_process_is_refused_by_name(config, name):
    with pytest.raises(NotModelled, match=rf"names the NKI kernel {name} of another process") as e:
        call_of(config)
    assert "as trnsim run FILE does" in e.value.fix


def test_a_number_beyond_those_of_this_process_is_refused():
    known = json.loads(base64.b64decode(config_of(call(double, (2, 2)), ["x"], 1)))
    known["klir_binary"]["binary"] += "999999"
    with pytest.raises(NotModelled, match="the NKI kernel double of another process"):
        call_of(base64.b64encode(json.dumps(known).encode()).decode())


EXPORT = """
import sys
sys.path.insert(0, {folder!r})
import jax, jax.export, jax.numpy as jnp, numpy as np
from nki_kernels import double
print(len(jax.make_jaxpr(double)(np.ones((4, 3))).eqns))  # before any device is asked for
calls = [jax.export.DisabledSafetyCheck.custom_call("AwsNeuronCustomNativeKernel")]
program = jax.jit(lambda x: double(x) + 1)
made = jax.export.export(program, platforms=["neuron"], disabled_checks=calls)
stored = made(jnp.ones((4, 3))).serialize()
print(float(jax.export.deserialize(stored).call(jnp.ones((4, 3))).sum()))
open({file!r}, "wb").write(stored)
"""
RUN = """
import jax, jax.export, jax.numpy as jnp
stored = bytearray(open({file!r}, "rb").read())
try:
    jax.export.deserialize(stored).call(jnp.ones((4, 3)))
except Exception as error:
    print(error)
print(float((jnp.ones(3) + 1).sum()))
"""


@pytest.mark.slow
def test_an_exported_program_runs_where_its_kernels_are_and_says_so_elsewhere(ran, tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export writes files with flatbuffers")
    from pathlib import Path  # noqa: PLC0415

    from trnsim.jax.stablehlo.exported import of_bytes  # noqa: PLC0415

    file = tmp_path / "step.jax"
    folder = str(Path(__file__).parent)
    assert ran(EXPORT.format(folder=folder, file=str(file))).stdout == "1\n36.0\n"
    said = ran(RUN.format(file=str(file))).stdout
    expected = f"{TARGET}: the program names the NKI kernel double of another process"
    assert said.startswith(f"UNIMPLEMENTED: stablehlo.custom_call of {expected}")
    assert said.endswith("6.0\n")
    with pytest.raises(NotModelled, match=expected):  # as `trnsim compile` does
        of_bytes(file.read_bytes(), str(file), file.name, ())


def test_equal_programs_with_kernels_are_compiled_once():
    jnp.zeros(())
    texts = [jax.jit(lambda x: double(x) * 3).lower(np.ones((4, 3))).as_text() for _ in range(2)]
    assert texts[0] == texts[1]
