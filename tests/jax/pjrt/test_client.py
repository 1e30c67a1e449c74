import jax
import pytest

from trnsim.jax import private
from trnsim.jax.pjrt.client import attributes
from trnsim.jax.pjrt.named_values import values_at


def test_the_client_has_the_platforms_name_and_version(neuron):
    client = neuron[0].client
    assert client.platform == "neuron"
    assert "trnsim " in client.platform_version
    assert "trn2" in client.platform_version
    assert client.process_index() == 0
    assert client.device_count() == client.local_device_count() == 8


def test_a_device_is_found_by_its_number(neuron):
    assert neuron[0].client.device_from_local_hardware_id(3) is neuron[3]
    with pytest.raises(Exception, match="neuron:9 does not exist: this process has 8"):
        neuron[0].client.device_from_local_hardware_id(9)


def test_programs_arrive_in_the_newest_stablehlo_that_jaxlib_reads():
    found = values_at(attributes().address, attributes().size)
    newest, oldest = private.stablehlo_versions()
    assert found["stablehlo_current_version"] == newest
    assert oldest < newest
    high = jax.jit(lambda x: jax.lax.tanh(x, accuracy=jax.lax.AccuracyMode.HIGHEST))
    assert float(high(0.0)) == 0


SUMS = """
import jax.numpy as jnp
print(float(jnp.ones(3).sum()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("numerics", "total"), [("exact", 3), ("shapes", 0)])
def test_numerics_are_those_that_the_environment_asks_for(ran, numerics, total):
    printed = ran(SUMS, JAX_PLATFORMS="neuron", TRNSIM_NUMERICS=numerics).stdout
    assert float(printed) == total
