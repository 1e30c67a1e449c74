import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep no limit of data")
@pytest.mark.parametrize(("limit", "status"), [(1 << 27, 1), (1 << 29, 0)])
def test_data_beyond_the_limit_are_refused(limit, status):
    limited = f"from trnsim.api.child import limit_memory; limit_memory({limit})"
    command = [sys.executable, "-c", f"{limited}; bytearray(1 << 28)"]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == status
    assert (b"MemoryError" in run.stderr) is bool(status)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep no limit of data")
@pytest.mark.parametrize(("most", "limit"), [(1 << 30, 1 << 29), (1 << 29, 1 << 30)])
def test_a_child_of_a_child_has_the_lower_limit_and_cannot_raise_it(most, limit):
    shown = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA))"
    code = (
        "import resource, subprocess, sys\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({most}, {most}))\n"
        f"from trnsim.api.child import limit_memory; limit_memory({limit})\n"
        f"subprocess.run([sys.executable, '-c', {shown!r}], check=True)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str((1 << 29, 1 << 29))


def test_the_words_are_those_of_the_command():
    command = [sys.executable, "-m", "trnsim.api.child", str(1 << 33), "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("trnsim ")
