"""Which cases of a parametrized test are slow."""

from types import SimpleNamespace

import pytest
from shares import is_slow, places, pytest_itemcollected

AXIS = pytest.mark.parametrize


def case(*markers, name="", **indices):
    """A collected case: its markers, and of each parameter the place of its value."""
    marks, added = [marker.mark for marker in markers], []
    return SimpleNamespace(
        callspec=SimpleNamespace(id=name, indices=indices),
        iter_markers=lambda name=None: [mark for mark in marks if name in (None, mark.name)],
        add_marker=added.append,
        added=added,
    )


def test_names_that_are_given_together_are_one_axis_and_a_fixture_is_another():
    together, alone = AXIS("a, b", [(1, 2)]), AXIS(["c"], [3])
    assert places(case(together, alone, a=4, b=4, c=1, core=2)) == [4, 1, 2]
    assert places(case(AXIS(argnames=("a", "b"), argvalues=[]), a=5, b=5)) == [5]


@pytest.mark.parametrize(
    ("markers", "slow"),
    [
        ([pytest.mark.slow_cases("p", "q")], "pq"),
        ([pytest.mark.slow_cases("p"), pytest.mark.slow_cases("q")], "pq"),
        ([pytest.mark.slow_but("p", "q")], "rs"),
        ([pytest.mark.slow_but("p"), pytest.mark.slow_but("q")], "rs"),
        ([pytest.mark.slow_but_every(2)], "qs"),
        ([pytest.mark.slow_but_every(2), pytest.mark.slow_but("s")], "q"),
        ([pytest.mark.slow_but_every(2), pytest.mark.slow_cases("p")], "pqs"),
        ([pytest.mark.slow_but_every(9)], "qrs"),
        ([pytest.mark.slow_but_every(1)], ""),
    ],
)
def test_of_one_axis(markers, slow):
    cases = {name: case(AXIS("x", []), *markers, x=at, name=name) for at, name in enumerate("pqrs")}
    assert [name for name, item in cases.items() if is_slow(item)] == list(slow)


def test_of_an_axis_as_long_as_the_number_one_value_stands_beside_each_of_the_others():
    every = pytest.mark.slow_but_every(3)
    fast = [
        (x, y)
        for x in range(3)
        for y in range(5)
        if not is_slow(case(AXIS("x", []), AXIS("y", []), every, x=x, y=y))
    ]
    assert sorted(y for _, y in fast) == [0, 1, 2, 3, 4]
    assert {x for x, _ in fast} == {0, 1, 2}


def test_what_is_slow_is_marked_and_a_test_without_cases_is_left_alone():
    marked = case(AXIS("x", []), pytest.mark.slow_but_every(2), x=1)
    pytest_itemcollected(marked)
    assert marked.added == [pytest.mark.slow]
    plain = case(pytest.mark.slow)
    del plain.callspec
    pytest_itemcollected(plain)
    assert plain.added == []
