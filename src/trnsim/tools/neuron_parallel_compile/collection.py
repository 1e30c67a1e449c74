"""A program's trial run, which stores its graphs and computes no values."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trnsim.compiler.compile_cache.settings import EXTRACT_VARIABLE, URL_VARIABLE
from trnsim.compiler.flags import VARIABLE, flag_settings
from trnsim.errors import BadInput

PARALLEL_VARIABLE: Final = "NEURON_PARALLEL_COMPILE"
IGNORE_VARIABLE: Final = "NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE"
_CACHE_FLAG: Final = "cache-dir"
_GRACE_S: Final = 5.0
_EXAMPLE: Final = "neuron_parallel_compile torchrun --nproc_per_node=2 train.py --steps 10"
_SOURCE: Final = (
    "aws-neuron-sdk frameworks/torch/torch-neuronx/api-reference-guide/training/"
    "pytorch-neuron-parallel-compile.rst"
)


def check_command(command: Sequence[str]) -> str:
    """The path of the program that a command names.

    Raises:
        BadInput: there is no command, or no such program.
    """
    if not command:
        raise BadInput("no program is named to run", fix=_EXAMPLE, source=_SOURCE)
    name, equals, _ = command[0].partition("=")
    program = shutil.which(command[0])
    if program is not None:
        return program
    if equals and name.isidentifier():
        raise BadInput(
            f"{command[0]} is a variable and no program",
            fix=f"put it before: {command[0]} neuron_parallel_compile {' '.join(command[1:])}",
            source="aws-neuron-sdk archive/nxd-training/bert.rst, BERT precompilation hangs",
        )
    raise BadInput(
        f"{command[0]} is no program: none of that name is on PATH, and no file of it can be run",
        fix=f"for a Python file: python {command[0]}" if name.endswith(".py") else _EXAMPLE,
    )


def collect(
    command: Sequence[str], cache: Path, environment: Mapping[str, str] | None = None
) -> int:
    """Run a command that stores its graphs in a cache; return its exit status.

    Raises:
        BadInput: the command names no program, or the system does not start it.
    """
    program = check_command(command)
    variables = {
        **(os.environ if environment is None else environment),
        EXTRACT_VARIABLE: "1",
        PARALLEL_VARIABLE: "1",
        URL_VARIABLE: str(cache),
    }
    flags = variables.get(VARIABLE, "")
    if any(flag.name == _CACHE_FLAG for flag, _ in flag_settings(flags)):
        variables[VARIABLE] = f"{flags} --cache_dir={shlex.quote(str(cache))}"  # the last one holds
    try:
        process = subprocess.Popen([program, *command[1:]], env=variables)  # noqa: S603  asked for
    except OSError as error:
        raise BadInput(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        return process.wait()
    except KeyboardInterrupt:  # which the terminal sends to the program too
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for an interrupted program to end; kill it if it does not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            process.wait(timeout=_GRACE_S)
            return  # noqa: TRY300
        except subprocess.TimeoutExpired:
            process.send_signal(number)
    process.kill()
    process.wait()


def ignores_errors() -> bool:
    """True if graphs are compiled even where the program fails."""
    return os.environ.get(IGNORE_VARIABLE, "") not in ("", "0")
