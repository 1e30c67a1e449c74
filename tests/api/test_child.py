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


def test_the_words_are_those_of_the_command():
    command = [sys.executable, "-m", "trnsim.api.child", str(1 << 33), "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("trnsim ")
