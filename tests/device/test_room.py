import pkgutil
import subprocess
import sys

import pytest

from trnsim import device

FRAMEWORKS = ("torch", "jax")


@pytest.mark.slow
def test_no_module_of_the_room_imports_a_framework():
    modules = [found.name for found in pkgutil.iter_modules(device.__path__)]
    assert {"call_log", "hbm", "kernel_call", "step_report"} <= set(modules)
    imports = "\n".join(f"import trnsim.device.{name}" for name in modules)
    code = f"import sys\n{imports}\nprint([n for n in {FRAMEWORKS} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
