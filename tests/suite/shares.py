"""Which cases of a parametrized test are fast, where the others are slow: a pytest plugin.

    slow_cases(*ids)        those cases are slow
    slow_but(*ids)          those cases are fast
    slow_but_every(number)  cases are fast whose places along their axes add up to a multiple of it

A case is slow if a marker names it, or if the test has markers of what is fast and none names it.
An axis is one `parametrize` or a fixture with parameters, and a place counts from 0: of one axis
every `number`-th case is fast, the first among them, and of several axes each value beside a share
of the others. Where `number` is the length of an axis, exactly one of its values stands beside each
combination of the others.
"""

import pytest

FAST = {
    "slow_but": lambda item, ids: item.callspec.id in ids,
    "slow_but_every": lambda item, numbers: sum(places(item)) % numbers[0] == 0,
}


def places(item):
    """The place of a case along each of its axes."""
    axes, left = [], dict(item.callspec.indices)
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0] if marker.args else marker.kwargs["argnames"]
        names = names.replace(",", " ").split() if isinstance(names, str) else list(names)
        axes += [left.pop(name) for name in names if name in left][:1]
    return [*axes, *left.values()]


def is_slow(item):
    """True of a case that its test's markers leave to the nightly run."""
    if any(item.callspec.id in marker.args for marker in item.iter_markers("slow_cases")):
        return True
    keeps = [
        keeps(item, marker.args)
        for name, keeps in FAST.items()
        for marker in item.iter_markers(name)
    ]
    return bool(keeps) and not any(keeps)


def pytest_itemcollected(item):
    """Marks a case as slow."""
    names = {marker.name for marker in item.iter_markers()}
    if names & {"slow_cases", *FAST} and is_slow(item):
        item.add_marker(pytest.mark.slow)
