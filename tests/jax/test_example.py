"""The examples of JAX, as programs of their own and under `trnsim run`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_jax.py"


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """What `trnsim run` says of the example, and the page of its step."""
    pytest.importorskip("typer")
    folder = tmp_path_factory.mktemp("reported")
    done = subprocess.run(
        [Path(sys.executable).parent / "trnsim", "run", EXAMPLE, "--report", "here"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + (folder / "here" / "step.txt").read_text()
    return said, (folder / "here" / "step.html").read_text()


@pytest.mark.slow
def test_it_trains_on_the_device_as_on_the_cpu(ran, reported):
    (on_neuron,) = re.findall("^(loss .* on) neuron$", reported[0], re.MULTILINE)
    on_cpu = ran(EXAMPLE.read_text(), JAX_PLATFORMS="cpu").stdout
    assert on_cpu == f"{on_neuron} cpu\n"
    first, last = map(float, re.findall(r"\d\.\d+", on_cpu))
    assert last < first / 2


@pytest.mark.slow
def test_its_step_is_reported_by_scope_and_operation(reported):
    said, page = reported
    modules = said.partition("by module on trn2")[2].partition("by operation")[0]
    assert {"layer0", "layer1"} <= set(modules.split())
    assert "jit_step-0" in said
    product = next(n for n, line in enumerate(EXAMPLE.read_text().splitlines(), 1) if "@" in line)
    assert f"train_jax.py:{product} " in said.partition("by line on trn2")[2]
    assert re.search(r"^trn3 +\d", said, re.MULTILINE)
    assert "jit_step-0" in page


KERNEL = EXAMPLE.with_name("kernel_jax.py")
PAGE = Path(__file__).parents[2] / "docs" / "kernels-in-jax.md"


@pytest.mark.slow
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
    step = (tmp_path / "here" / "step.txt").read_text()
    modules = step.partition("by module on trn2")[2].partition("by operation")[0]
    assert "mlp" in modules.split()
    assert "jit_step-0" in step
    assert re.search(
        r"^squared_relu_gradient on trn2 .*: \d+ instructions$", done.stdout, re.MULTILINE
    )
    assert {one.name for one in (tmp_path / "here").glob("squared_relu*.html")}
