"""The NKI example of AWS's TorchNeuron page, unedited: cut out of the page and run as a program."""

import subprocess
import sys
import textwrap

PAGE = "aws-neuron-sdk/frameworks/torch/pytorch-native-overview.rst"
BLOCK = ".. code-block:: python"
# The chip's sine ends at pi, which the page's unseeded normal numbers pass now and then.
SEEDED = """
import runpy, sys, torch
torch.manual_seed(0)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def example(page):
    """The page's one block of Python: the indented lines that follow its heading."""
    lines = page.split(BLOCK, 1)[1].splitlines()
    block = []
    for line in lines:
        if line and not line.startswith(" "):
            break
        block.append(line)
    return textwrap.dedent("\n".join(block))


def test_the_example_of_the_page_runs_and_finds_its_gradients_right(upstream, tmp_path):
    script = tmp_path / "sin_autograd.py"
    script.write_text(example((upstream / PAGE).read_text(encoding="utf-8")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SEEDED, str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Gradients match" in done.stdout
