import pytest

from trnsim.decide.scan.lowered import LOWERED

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.aten.decompositions import DECOMPOSITIONS


def test_the_list_has_every_operator_that_is_lowered_and_no_other():
    assert sorted(DECOMPOSITIONS.keys() ^ LOWERED) == []
