"""Programs of JAX in files, whole and corrupt, and `trnsim compile` on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BLOCK
from jax import export
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput, NotModelled
from trnsim.jax.stablehlo.exported import bytecode_in, of_bytes

PARAMS = {"w": np.ones((4, 8), np.float32), "b": np.ones(8, np.float32)}
BYTECODE = ".mlirbc"


def model(params, x):
    with jax.named_scope("linear"):
        return jnp.tanh(x @ params["w"] + params["b"]) * jnp.arange(8.0)


def of_export(path, weights=()):
    return of_bytes(path.read_bytes(), str(path), path.name, weights)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A program in each form that a file may have."""
    folder = tmp_path_factory.mktemp("programs")
    exported = export.export(jax.jit(model))(PARAMS, BLOCK[0])
    artifact = exported.mlir_module_serialized
    (folder / "step.mlir").write_text(exported.mlir_module())
    (folder / "step.mlirbc").write_bytes(artifact)
    # A flatbuffer has a vector's length before it; other fields stand around.
    whole = b"\x10\0\0\0fields__" + len(artifact).to_bytes(4, "little") + artifact + b"more"
    (folder / "step.jax").write_bytes(whole)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["compile", *map(str, arguments)])


@pytest.mark.parametrize("suffix", [".mlir", BYTECODE, ".jax"])
def test_each_form_is_the_same_program(files, suffix):
    subject = of_export(files / f"step{suffix}", ["params"])
    made = subject.model_graph
    assert subject.title == f"step{suffix}"
    assert [*made.names.values()][:3] == ["params['b']", "params['w']", "x"]
    assert {made.names[one] for one in made.weights} >= {"params['b']", "params['w']"}
    assert {node.origin.module for node in made.graph.nodes if node.name == "dot_general"} == {
        "linear"
    }
    assert "stablehlo.dot_general" in made.operators


def test_what_jax_itself_writes(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export writes a flatbuffer: pip install jax")
    path = tmp_path / "step.jax"
    path.write_bytes(export.export(jax.jit(model))(PARAMS, BLOCK[0]).serialize())
    assert "dot_general" in [node.name for node in of_export(path).model_graph.graph.nodes]


def test_a_value_has_the_primitive_and_the_line_that_made_it(files):
    made = of_export(files / "step.mlir").model_graph
    line = model.__code__.co_firstlineno + 2
    (product,) = (node for node in made.graph.nodes if node.name == "dot_general")
    call = made.origins[product.result.number]
    assert (call.operator, call.line.line) == ("jax::dot_general", line)


def test_a_program_is_compiled_from_the_command_line(files, tmp_path):
    done = run(files / "step.jax", "--on", "trn1,trn2", "--weights", "params", "--report", tmp_path)
    assert done.exit_code == 0, done.output
    assert "step.jax on trn1\n" in done.output
    assert "linear" in done.output
    assert "160 B of weights" in done.output
    assert (tmp_path / "step.html").is_file()


def test_a_program_is_known_by_what_it_holds(files, tmp_path):
    for suffix in (".mlir", BYTECODE):
        other = tmp_path / f"program{suffix[1:]}"
        other.write_bytes((files / f"step{suffix}").read_bytes())
        assert run(other).exit_code == 0


def test_weights_of_another_name_are_refused(files):
    with pytest.raises(BadInput, match=r"^no argument of the program is par; there are params\['b"):
        of_export(files / "step.jax", ["par"])


@pytest.mark.parametrize(
    ("suffix", "content", "why"),
    [
        (".jax", lambda whole: whole[: len(whole) // 2], r"\d+ bytes of a file of at least \d+"),
        (".mlirbc", lambda whole: whole[: len(whole) // 2], "failed to deserialize module"),
        (".mlirbc", lambda whole: whole[:300] + b"\1\2\3" * 40 + whole[420:], "failed to deseria"),
        (".mlir", lambda whole: whole[: len(whole) // 2], "Unable to parse module assembly:"),
        (".mlir", lambda _: b"", "broken.mlir is empty: a module without a function main"),
        (".mlir", lambda _: b" \n" + b"\0" * 9, "broken.mlir is empty"),
        (".mlir", lambda _: b"module { }", "broken.mlir holds a module without a function main"),
        (".mlir", lambda _: b"\xff\xfe", "'utf-8' codec can't decode"),
    ],
)
def test_a_corrupt_file_is_refused(files, tmp_path, suffix, content, why):
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content((files / f"step{suffix}").read_bytes()))
    with pytest.raises(BadInput, match=why) as refused:
        of_export(path)
    assert refused.value.fix
    assert run(path).exit_code == 1


def test_bytecode_in_a_file():
    assert bytecode_in(b"ML\xefRabc") == b"ML\xefRabc"
    assert bytecode_in(b"xx\x06\0\0\0ML\xefRabcd") == b"ML\xefRab"
    with pytest.raises(ValueError, match="10 bytes of a file of at least 15"):
        bytecode_in(b"\x0b\0\0\0ML\xefRab")


def test_what_a_graph_has_not_is_refused_with_its_line(tmp_path):
    path = tmp_path / "fft.mlir"
    path.write_text(export.export(jax.jit(jnp.fft.fft))(BLOCK[0]).mlir_module())
    with pytest.raises(NotModelled, match="a tensor of complex<f32>"):
        of_export(path)
    assert run(path).exit_code == 1


def test_hlo_that_is_no_program_says_why_and_prints_nothing_else(capfd):
    text = (
        b"HloModule m\nENTRY e {\n  a = f32[4]{0} parameter(0)\n  ROOT b = f32[5]{0} add(a, a)\n}\n"
    )
    with pytest.raises(
        BadInput, match=r"^m is no program of HLO: .* same shape .*; failed"
    ) as refused:
        of_bytes(text, "m", "m")
    assert "as_hlo_text" in refused.value.fix
    assert capfd.readouterr() == ("", "")
