import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.device_core import NoSuchCore, visible_cores
from trnsim.torch.traces.placement import CoresRefused, default_placement, placement_of, placing


def test_programs_are_loaded_to_the_cores_in_turn():
    cores = len(visible_cores())
    first = default_placement.next_placement().cores[0]
    assert default_placement.next_placement().cores == ((first + 1) % cores,)
    assert placement_of().cores == ((first + 2) % cores,)


def test_a_program_uses_its_cores_in_turn():
    placement = placement_of(1, 2)
    assert [placement.next_core() for _ in range(4)] == [1, 2, 1, 2]
    assert placement_of(1).cores == (1,)
    assert placement_of(nc_count=2).cores == (0, 1)


@pytest.mark.parametrize("count", [0, -2])
def test_a_number_of_cores_that_is_none_is_refused(count):
    with pytest.raises(CoresRefused, match=f"nc_count={count}") as refused:
        placement_of(0, count)
    assert isinstance(refused.value, ValueError)


def test_cores_beyond_the_last_are_refused():
    last = len(visible_cores())
    assert placement_of(last - 1, 1).cores == (last - 1,)
    with pytest.raises(CoresRefused):
        placement_of(last - 1, 2)
    with pytest.raises(NoSuchCore) as refused:
        placement_of(last)
    assert isinstance(refused.value, RuntimeError)


def test_a_context_places_what_is_loaded_in_it():
    with placing(1, 2):
        assert default_placement.next_placement().cores == (1, 2)
        with placing(0):
            assert default_placement.next_placement().cores == (0,)
        assert default_placement.next_placement().cores == (1, 2)
    assert len(default_placement.next_placement().cores) == 1
    with pytest.raises(CoresRefused), placing(0, 0):
        pass


@pytest.mark.parametrize(
    ("values", "text"), [(("0",), "start_nc='0'"), ((0, None), "nc_count=None")]
)
def test_cores_that_are_no_numbers_are_refused_with_the_program_s_line(values, text):
    with pytest.raises(CoresRefused, match=text) as refused:
        placement_of(*values)
    assert refused.value.line.file == __file__
    with pytest.raises(CoresRefused, match=text) as refused, placing(*values):
        pass
    assert refused.value.line.file == __file__
