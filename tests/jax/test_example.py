"""The examples of JAX, as programs of their own and under `trnsim run`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_jax.py"


def test_it_trains_on_the_device_as_on_the_cpu(ran):
    program = EXAMPLE.read_text()
    on_neuron, on_cpu = (ran(program, JAX_PLATFORMS=name).stdout for name in ("neuron", "cpu"))
    assert on_neuron.endswith("on neuron\n")
    assert on_neuron.removesuffix("neuron\n") == on_cpu.removesuffix("cpu\n")
    first, last = map(float, re.findall(r"\d\.\d+", on_cpu))
    assert last < first / 2


def test_its_step_is_reported_by_scope_and_operation(tmp_path):
    pytest.importorskip("typer")
    done = subprocess.run(
        [Path(sys.executable).parent / "trnsim", "run", EXAMPLE, "--report", "here"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    modules = done.stdout.partition("by module on trn2")[2].partition("by operation")[0]
    assert {"layer0", "layer1"} <= set(modules.split())
    assert "jit_step-0" in done.stdout
    product = next(n for n, line in enumerate(EXAMPLE.read_text().splitlines(), 1) if "@" in line)
    assert f"train_jax.py:{product} " in done.stdout.partition("by line on trn2")[2]
    assert re.search(r"^trn3 +\d", done.stdout, re.MULTILINE)
    page = (tmp_path / "here" / "step.html").read_text()
    assert "jit_step-0" in page


KERNEL = EXAMPLE.with_name("kernel_jax.py")
PAGE = Path(__file__).parents[2] / "docs" / "kernels-in-jax.md"


def test_the_page_on_kernels_shows_its_example_and_what_it_prints(tmp_path):
    """Run by trnsim, which times the kernels within the step and apart."""
    pytest.importorskip("typer")
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert code in KERNEL.read_text(encoding="utf-8")
    (shown,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    command, _, expected = shown.partition("\n")
    assert command == f"$ python examples/{KERNEL.name}"
    done = subprocess.run(
        [Path(sys.executable).parent / "trnsim", "run", KERNEL, "--report", "here"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    modules = done.stdout.partition("by module on trn2")[2].partition("by operation")[0]
    assert "mlp" in modules.split()
    assert "jit_step-0" in done.stdout
    assert re.search(
        r"^squared_relu_gradient on trn2: \d+ instructions$", done.stdout, re.MULTILINE
    )
    assert {one.name for one in (tmp_path / "here").glob("squared_relu*.html")}
