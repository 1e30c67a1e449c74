import pytest


@pytest.mark.slow
@pytest.mark.parametrize("package", ["jax_neuronx", "libneuronxla"])
def test_importing_awss_package_asks_for_the_platform(ran, package):
    program = f"import {package}, jax; print(jax.default_backend())"
    done = ran(program, TRNSIM_AUTOLOAD="0")
    assert done.stdout == "neuron\n"
    assert "trnsim: the default device" not in done.stderr
