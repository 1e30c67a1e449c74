import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.spec import Spec, spec_of


def test_a_spec_says_how_a_tensor_lies():
    x = torch.zeros(2, 3, 4)
    assert spec_of(x) == Spec((2, 3, 4), torch.float32, (0, 1, 2))
    assert spec_of(x.transpose(0, 2)).order == (2, 1, 0)
    assert spec_of(torch.zeros(1, 3).expand(5, 3)).repeated == (0,)


def test_a_dtype_that_the_chip_lacks_is_named():
    with pytest.raises(Unlowered, match=r"torch\.float64"):
        spec_of(torch.zeros(2, dtype=torch.float64)).enter(Build())


def test_unsigned_integers_of_32_bits_are_the_chips_and_those_of_16_only_kernels():
    assert spec_of(torch.zeros(2, dtype=torch.uint32)).type.dtype == "uint32"
    with pytest.raises(Unlowered, match=r"torch\.uint16, which only NKI kernels read here; cast"):
        spec_of(torch.zeros(2, dtype=torch.uint16)).enter(Build())
