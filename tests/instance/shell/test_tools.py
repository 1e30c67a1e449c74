import subprocess
import sys

import pytest

from trnsim.instance.shell.tools import FOLDER, TOOLS, scripts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts of sh")


def test_each_tool_has_a_script():
    assert FOLDER == "/opt/aws/neuron/bin"
    assert list(scripts()) == list(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("runner", [[], [sys.executable]])
def test_a_script_runs_the_command_with_trnsims_interpreter(name, runner, tmp_path):
    if runner and not name.endswith(".py"):
        pytest.skip("a script of sh, as AWS's is a program")
    python = tmp_path / "py thon"
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    script = tmp_path / name
    script.write_text(scripts(str(python))[name])
    for file in (python, script):
        file.chmod(0o755)
    done = subprocess.run(
        [*runner, str(script), "--port", "80 00", ""],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert done.stdout == f"-P|-m|trnsim|{name.removesuffix('.py')}|--port|80 00||"
