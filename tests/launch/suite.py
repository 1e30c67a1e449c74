"""The commands of docs/launch.md print what it shows: a minute on two cores.

`python tests/launch/suite.py` puts what is printed today into the page.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "launch.md"


def shown():
    """Each command of the page, and what stands below it."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [block.removeprefix("$ ").partition("\n")[::2] for block in blocks]


WARNINGS = (
    "Warning: Time stats are currently",
    "Platform 'neuron' is experimental",
    "[Gloo] Rank",
    "preemption_notifier",
)
"""What PyTorch and JAX say themselves, at any time."""


def printed(command, folder):
    """What a command prints, without what PyTorch and JAX say themselves."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S602  the page's commands are those of a shell
        command, shell=True, cwd=folder, env=os.environ | {"PATH": path}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    lines = done.stdout.splitlines(keepends=True)
    return "".join(line for line in lines if not any(one in line for one in WARNINGS))


def outputs(folder):
    shutil.copytree(ROOT / "examples", folder / "examples")
    return [printed(command, folder) for command, _ in shown()]


def losses(text):
    return re.findall(r"^step (\d): loss ([\d.]+)$", text, re.MULTILINE)


def test_the_commands_of_the_page_print_what_it_shows(tmp_path):
    found = outputs(tmp_path)
    assert found == [output for _, output in shown()]
    whole, lost, of_jax = map(losses, found)
    assert len(whole) == len(of_jax) == 8
    assert lost == whole  # the rank that was lost made no difference


def rewrite():
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for (command, output), now in zip(shown(), outputs(Path(folder)), strict=True):
            text = text.replace(f"$ {command}\n{output}", f"$ {command}\n{now}", 1)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
