"""The launch grid as a kernel sees it."""

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import jit
from trnsim.nki import language as nl


@jit
def places(x):
    """Each core writes its place in the grid to a row of its own."""
    numbers = (nl.program_id(), nl.num_programs(), nl.num_programs(axes=0), nl.program_ndim())
    for column, number in enumerate(numbers):
        tile = nl.full((1, 1), number, nl.int32)
        nl.store(x[nl.program_id(0), column : column + 1].expand_dim(0), tile)
    return x


def test_two_cores_are_a_grid_of_one_axis():
    found = trnsim.run(places[2], np.zeros((2, 4), np.int32)).outputs
    assert found.tolist() == [[0, 2, 2, 1], [1, 2, 2, 1]]


def test_one_core_has_no_grid():
    found = trnsim.run(places, np.zeros((2, 4), np.int32)).outputs
    assert found.tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("ask", [nl.program_id, nl.num_programs])
def test_there_is_no_second_axis(ask):
    with pytest.raises(IllegalInstruction, match="axis 1 of the launch grid; legal: 0"):
        ask(1)
    assert nl.num_programs(None) == nl.num_programs((0,)) == 1


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize("wrong", [np.zeros(3), "x", 0.5], ids=str)
def test_an_axis_is_a_whole_number(wrong):
    for ask in (nl.program_id, nl.num_programs):
        with pytest.raises(IllegalInstruction, match="legal: whole numbers known when"):
            ask(wrong)
    with pytest.raises(IllegalInstruction, match="legal: whole numbers known when"):
        nl.program_id((0,))


@pytest.mark.usefixtures("on_core")
def test_a_tensor_of_any_rank_is_printed(capsys):
    nl.device_print("x", nl.full((3,), 2, nl.int32, buffer=nl.hbm))
    assert capsys.readouterr().out == "x [2 2 2]\n"
