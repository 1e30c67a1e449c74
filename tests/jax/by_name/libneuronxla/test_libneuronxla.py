import subprocess
import sys

import libneuronxla
import pytest


def test_names_that_need_awss_libraries_are_refused_by_name():
    assert not hasattr(libneuronxla, "libncc")
    with pytest.raises(ImportError, match=r"libneuronxla\.libncc: it is AWS's own compiler's"):
        from libneuronxla import libncc  # noqa: F401, PLC0415
    with pytest.raises(AttributeError, match="has no attribute 'neuron_xla_compil'; did you mean"):
        _ = libneuronxla.neuron_xla_compil


@pytest.mark.slow
def test_a_program_of_pytorch_loads_no_jax():
    program = (
        "import sys; from libneuronxla import neuron_xla_compile, neuron_xla_wlo_compile;"
        "from libneuronxla.neuron_cc_cache import CacheUrl; print('jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
