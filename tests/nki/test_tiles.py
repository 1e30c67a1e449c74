"""What the functions of the language are made of."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.nki import language as nl
from trnsim.nki import tiles
from trnsim.nki.notices import SimulatorOnlyWarning

SHAPES = [((4, 8), (4, 1)), ((4, 8), (1, 8)), ((4, 1), (1, 8)), ((1, 1), (4, 8))]


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_shapes_that_numpy_broadcasts_work_on_awss_simulator_alone(computed, random, first, second):
    x, y = random(first), random(second, seed=1)
    with pytest.raises(IllegalInstruction, match=r"nl\.add of .*; legal: equal shapes") as caught:
        computed(nl.add, x, y)
    assert "nl.broadcast_to" in caught.value.fix
    with pytest.warns(SimulatorOnlyWarning, match="legal: equal shapes"):
        np.testing.assert_array_equal(computed(nl.add, x, y, as_simulator=True), x + y)


def test_shapes_that_numpy_does_not_broadcast_are_refused_everywhere(computed, random):
    for as_simulator in (False, True):
        with pytest.raises(IllegalInstruction, match="legal: equal shapes"):
            computed(nl.add, random((4, 8)), random((4, 7)), as_simulator=as_simulator)


def test_an_operand_in_hbm_is_loaded_on_awss_simulator_alone(computed, random):
    x = random((4, 8))

    def added(tile):
        return nl.add(tile, nl.shared_constant(x))

    with pytest.raises(
        IllegalInstruction, match=r"nl\.add of HBM .*; legal: tiles in SBUF or PSUM"
    ):
        computed(added, x)
    with pytest.warns(SimulatorOnlyWarning, match="legal: tiles in SBUF or PSUM"):
        np.testing.assert_array_equal(computed(added, x, as_simulator=True), 2 * x)


def test_an_instruction_that_is_not_there_says_so():
    with pytest.raises(NotModelled, match=r"nki\.isa\.teleport, on which a function"):
        tiles.issue("teleport")
