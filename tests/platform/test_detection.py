"""Files of optimum-neuron and vllm-neuron that look for devices, from clones, each by itself.

The packages around them need AWS's compiler and runtime.
"""

import sys

import pytest
from found_programs import upstream
from instance_shells import needs_namespace, shell

LOAD = """
import sys, types
module = types.ModuleType("found")
exec(compile(open({path!r}).read(), {path!r}, "exec"), vars(module))
"""


def answers(path, program, *options):
    """What a program prints in an instance that has loaded the file at `path`."""
    text = LOAD.format(path=str(path)) + program
    done = shell(sys.executable, "-W", "error", "-c", text, options=options)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_namespace
@pytest.mark.parametrize(
    ("instance", "devices", "cores"),
    [("trn2.48xlarge", 16, 64), ("trn1.32xlarge", 16, 32), ("inf2.24xlarge", 6, 12)],
)
def test_optimum_neuron_counts_devices_and_cores(instance, devices, cores):
    file = upstream("optimum-neuron/optimum/neuron/utils/system.py")
    program = (
        "print(module.get_instance_name().strip(), module.get_neuron_major(),"
        " module.get_neuron_devices_count(), module.get_available_cores())"
    )
    found = answers(file, program, "--instance", instance)
    assert found == [instance, "0", str(devices), str(cores)]


@needs_namespace
def test_vllm_neuron_registers_its_platform():
    file = upstream("vllm-neuron/vllm_neuron/__init__.py")
    found = answers(file, "print(module.register())", "--instance", "trn1.2xlarge")
    assert found == ["vllm_neuron.platform.NeuronPlatform"]
