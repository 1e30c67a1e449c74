import pytest

from trnsim.errors import NotModelled
from trnsim.jax.versions import check


@pytest.mark.parametrize("found", ["0.8.0", "0.9.2", "0.10.9"])
def test_the_tested_versions_are_taken(found):
    check(found)


@pytest.mark.parametrize("found", ["0.7.2", "0.11.0", "1.0.0", "0.4.38"])
def test_others_are_refused_with_what_to_install(found):
    with pytest.raises(NotModelled, match=r"pip install 'jax>=0\.8,<0\.11'") as caught:
        check(found)
    assert f"JAX {found} is installed" in str(caught.value)
