import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import record
from reported import World

from trnsim.tools.top.tree import TreeState, tree
from trnsim.tools.top.view import ALL, figures


def nodes(*records):
    return tree(figures(World(*records).report(), ALL), 4)


TREE = nodes(record())
"""A program on cores 0 and 5."""


def names(state, given=TREE):
    return ["/".join(row.path) for row in state.rows(given)]


def test_categories_stand_below_their_core_and_that_below_its_device():
    state = TreeState()
    assert names(state) == ["Host", "ND 0", "ND 1"]
    state.toggle_all(TREE)
    assert names(state)[4:8] == ["Host/App. Memory", "ND 0", "ND 0/NC 0", "ND 0/NC 0/Tensors"]
    assert names(state)[-1] == "ND 1/NC 1/Model Scratchpad"
    assert len(names(state)) == 5 + 2 * 7


def test_a_line_has_the_sum_of_those_below_it():
    host, first, second = TREE
    assert (host.host_bytes, host.device_bytes) == (10, 0)
    assert (first.device_bytes, first.children[0].device_bytes) == (120, 120)
    assert [one.device_bytes for one in first.children[0].children] == [100, 0, 20, 0, 0]
    assert (second.device_bytes, second.host_bytes) == (3, 0)


def test_without_programs_the_host_stands_alone():
    (host,) = nodes()
    assert host.host_bytes == 0


def test_the_cursor_goes_in_and_out():
    state = TreeState()
    state.move(TREE, 1)
    assert state.cursor == ("ND 0",)
    state.step_in(TREE)
    state.step_in(TREE)
    assert state.cursor == ("ND 0", "NC 0")
    state.step_in(TREE)
    state.step_in(TREE)
    assert state.cursor == ("ND 0", "NC 0", "Tensors")
    state.step_in(TREE)
    assert state.cursor == ("ND 0", "NC 0", "Tensors")
    state.step_out(TREE)
    state.step_out(TREE)
    assert state.cursor == ("ND 0", "NC 0")
    assert names(state) == ["Host", "ND 0", "ND 0/NC 0", "ND 1"]
    state.step_out(TREE)
    state.step_out(TREE)
    state.step_out(TREE)
    assert names(state) == ["Host", "ND 0", "ND 1"]
    assert state.cursor == ("ND 0",)


def test_a_line_opens_and_closes_and_one_without_others_does_not():
    state = TreeState()
    state.toggle(TREE)
    assert len(names(state)) == 7
    state.move(TREE, 1)
    state.toggle(TREE)
    assert len(names(state)) == 7
    state.move(TREE, -1)
    state.toggle(TREE)
    assert len(names(state)) == 3


@pytest.mark.parametrize("lines", [-100, 100])
def test_the_cursor_stops_at_the_ends(lines):
    state = TreeState()
    state.move(TREE, lines)
    assert state.cursor == (("Host",) if lines < 0 else ("ND 1",))


def test_closing_everything_leaves_the_cursor_at_what_it_was_in():
    state = TreeState()
    state.toggle_all(TREE)
    state.cursor = ("ND 1", "NC 1", "Constants")
    state.toggle_all(TREE)
    assert state.cursor == ("ND 1",)
    assert names(state) == ["Host", "ND 0", "ND 1"]


def test_where_a_program_has_ended_the_cursor_stands_on_a_line_that_is_there():
    state = TreeState()
    state.toggle_all(TREE)
    state.move(TREE, 100)
    assert state.cursor_line(nodes()) == len(state.rows(nodes())) - 1
    assert state.cursor[0] == "Host"
    # What comes back is as open as it was.
    assert len(names(state)) == 19


@given(st.lists(st.sampled_from(["move", "toggle", "step_in", "step_out", "toggle_all"])))
def test_whatever_is_pressed_the_cursor_stands_on_a_line_that_is_shown(pressed):
    state, trees = TreeState(), (TREE, TREE[:1])
    for index, one in enumerate(pressed):
        given = trees[index % 3 == 2]
        state.move(given, 1) if one == "move" else getattr(state, one)(given)
        assert state.rows(given)[state.cursor_line(given)].path == state.cursor
