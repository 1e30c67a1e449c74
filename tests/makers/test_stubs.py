"""Stubs of the packages that trnsim answers: made of the source, and read by a checker of types."""

import ast
import json
import os
import subprocess
import sys

import nki.isa
import nki.language
import pytest
import stubs

PROGRAM = """\
import nki
import nki.collectives
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import torch_neuron
import torch_neuronx.xla_impl.ops
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


@nki.jit
def scaled(x: nt.tensor, rows: int = 128) -> object:
    tile = nl.ndarray((rows, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x, engine=nisa.dma_engine.dma)
    nisa.activation(tile, nl.exp, tile)
    return tile


xm.mark_step()
pl.MpDeviceLoader([], "xla")
"""
WRONG = "nisa.dma_copi(dst=1)\nnisa.dma_copy(src=1)\nnl.flaot32\nreveal_type(nl.float32)\n"


def test_they_are_those_that_the_source_makes():
    written = {
        file.relative_to(stubs.SOURCE).as_posix(): file.read_text(encoding="utf-8")
        for folder in stubs.SOURCE.glob("*-stubs")
        for file in folder.rglob("*")
        if file.is_file()
    }
    made = "import json, stubs; print(json.dumps(stubs.stubs()))"  # apart, as torch_xla stays there
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", made]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert written == json.loads(run.stdout), "python docs/makers/stubs.py"


@pytest.mark.parametrize("module", [nki.isa, nki.language])
def test_every_function_is_declared_with_its_parameters(module):
    name = module.__name__.rpartition(".")[2]
    tree = ast.parse((stubs.SOURCE / "nki-stubs" / f"{name}.pyi").read_text(encoding="utf-8"))
    declared = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "activation" in declared or "exp" in declared
    for function, node in declared.items():
        assert callable(getattr(module, function))
        assert ast.get_docstring(node), function
    if name == "isa":
        arguments = declared["nc_matmul"].args.args
        assert [one.arg for one in arguments[:3]] == ["dst", "stationary", "moving"]


@pytest.mark.slow
def test_a_program_of_a_user_has_no_unresolved_import_and_a_mistake_is_found(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    right = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert right.stdout == "", right.stdout
    path.write_text(PROGRAM + WRONG)
    wrong = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'no attribute "dma_copi"; maybe "dma_copy"?' in wrong.stdout
    assert 'Missing positional argument "dst"' in wrong.stdout
    assert '"flaot32"' in wrong.stdout
    assert '"trnsim.dtypes.formats.Dtype"' in wrong.stdout


def diagnostics(folder, **settings):
    """What pyright's fork says of k.py by pyright's own standard: rule and severity, and texts."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    head = ["[tool.basedpyright]", 'typeCheckingMode = "standard"', 'pythonVersion = "3.11"']
    source = f"extraPaths = {json.dumps([str(stubs.SOURCE)])}"
    (folder / "pyproject.toml").write_text("\n".join([*head, source, *lines]) + "\n")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "k.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    found = json.loads(run.stdout)["generalDiagnostics"]
    return [(one.get("rule"), one["severity"], one["message"]) for one in found]


@pytest.mark.slow
def test_pyright_knows_the_signatures_and_warns_that_there_is_no_source(tmp_path):
    pytest.importorskip("basedpyright")
    path = tmp_path / "k.py"
    path.write_text(PROGRAM)
    rules = {(rule, severity) for rule, severity, _ in diagnostics(tmp_path)}
    assert rules == {("reportMissingModuleSource", "warning")}
    path.write_text(PROGRAM + WRONG)
    texts = [
        text
        for _, severity, text in diagnostics(tmp_path, reportMissingModuleSource=False)
        if severity == "error"
    ]
    for mistake in ('"dma_copi" is not a known attribute', '"dst"', '"flaot32"'):
        assert [text for text in texts if mistake in text], texts
