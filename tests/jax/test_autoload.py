"""Which processes get the platform, and what they are told."""

import pytest

SHOWS = "import jax; print(jax.default_backend())"
SAID = (
    "trnsim: the default device of this program is the emulated 'neuron', as JAX has no other "
    "accelerator (TRNSIM_AUTOLOAD=0 leaves it out)\n"
)


@pytest.mark.slow
def test_a_program_that_asks_for_nothing_gets_the_device_and_is_told_once(ran):
    done = ran(f"{SHOWS}\nimport jax.numpy as jnp; print(jnp.ones(3).sum())")
    assert done.stdout == "neuron\n3.0\n"
    assert done.stderr.count(SAID) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "backend"),
    [
        ({"TRNSIM_AUTOLOAD": "0"}, "cpu"),
        ({"JAX_PLATFORMS": "cpu"}, "cpu"),
        ({"JAX_PLATFORMS": "neuron"}, "neuron"),
        ({"JAX_PLATFORMS": "neuron", "TRNSIM_AUTOLOAD": "0"}, "neuron"),
        ({"TRNSIM_INSTANCE": "trn2.48xlarge"}, "neuron"),
    ],
)
def test_a_program_that_says_what_it_wants_gets_it_and_is_told_nothing(ran, variables, backend):
    done = ran(SHOWS, **variables)
    assert done.stdout == f"{backend}\n"
    assert SAID not in done.stderr


@pytest.mark.slow
def test_it_stays_away_from_an_accelerator(ran):
    program = "from jax._src import hardware_utils\n"
    program += "hardware_utils.num_available_tpu_chips_and_device_id = lambda: (4, 'id')\n"
    program += "from trnsim.jax import autoload; print(autoload.stays_away())"
    assert ran(program).stdout == "True\n"
    assert ran(program, JAX_PLATFORMS="neuron").stdout == "False\n"


@pytest.mark.slow
def test_the_real_plugin_wins(ran, tmp_path):
    folder = tmp_path / "jax_neuronx-0.7.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: jax-neuronx\nVersion: 0.7.0\n")
    (folder / "entry_points.txt").write_text("[jax_plugins]\nneuron = libneuron_real\n")
    real = "def initialize():\n    print('the real one')\n"
    (tmp_path / "libneuron_real.py").write_text(real)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SHOWS}"
    assert ran(program).stdout == "the real one\ncpu\n"


OLD = """
import jax, trnsim.jax.versions as versions
def refuse(found="0.7.2", check=versions.check):
    check(found)
versions.check = refuse
print(jax.default_backend())
try:
    jax.devices("neuron")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.slow
def test_outside_the_tested_versions_nothing_happens_until_the_platform_is_asked_for(ran):
    printed = ran(OLD).stdout
    assert printed.startswith("cpu\n")
    assert "JAX 0.7.2 is installed; the neuron device was tested with jax>=0.8,<0.11" in printed
    assert "pip install 'jax>=0.8,<0.11'" in printed
