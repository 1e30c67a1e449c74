import re
from types import SimpleNamespace

import nki.isa as nisa
import nki.language as nl
import pytest
from tuned_kernels import X, parted_case

from trnsim.errors import BadInput
from trnsim.runner import run
from trnsim.tune.space import space_of

ENGINES = (nisa.engine.vector, nisa.engine.scalar)


def test_a_space_has_every_combination():
    space = space_of(parted_case({"parts": (1, 2, 4), "works_on": ENGINES}))
    assert len(space) == len(list(space.settings())) == len(set(space.settings())) == 6
    assert space.default == (2, 0)
    assert space.values((1, 1)) == {"parts": 2, "works_on": nisa.engine.scalar}
    assert space.text((1, 1)) == "parts=2, works_on=scalar"


def test_a_default_that_is_not_declared_comes_first():
    space = space_of(parted_case({"parts": (1, 2)}))
    assert space.parameters[0].values == (4, 1, 2)
    assert space.default == (0,)


def test_the_default_is_that_of_the_inputs():
    space = space_of(parted_case({"parts": (1, 2)}, keywords={"parts": 2}))
    assert space.default == (1,)
    assert space.kernel_for((0,))[1] == {"parts": 1}


def test_a_parameter_without_a_default_begins_with_its_first_value():
    space = space_of(parted_case({"x": (1, 2)}, arguments=()))
    assert space.default == (0,)


def test_a_schedule_is_given_to_the_kernel():
    edges = [("load1", "store0")]
    space = space_of(parted_case({"schedule": (None, edges), "parts": (2, 4)}))
    plain, keywords = space.kernel_for((0, 0))
    ordered, _ = space.kernel_for((1, 0))
    assert keywords == {"parts": 2}
    assert plain.schedule is None
    assert ordered.schedule.pairs == tuple(edges)
    assert run(ordered, X, **keywords).total_time_s >= run(plain, X, **keywords).total_time_s


def test_a_digest_has_the_values():
    digests = {
        space_of(parted_case({"parts": values})).digest() for values in ((1, 2), (1, 4), (2, 1))
    }
    assert len(digests) == 3


def test_a_digest_tells_values_of_equal_names_apart():
    def named(width):
        return SimpleNamespace(name="wide", width=width)

    several = [(1, 2), (True, 2), (1.0, 2), ("1", 2), (named(1), named(2)), (named(1), named(3))]
    several += [
        ((0, 1), (1, 2)),
        ([0, 1], (1, 2)),
        (nl.float32, nl.bfloat16),
        (nl.float32, nl.int8),
    ]
    digests = {space_of(parted_case({"parts": values})).digest() for values in several}
    assert len(digests) == len(several)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "k.py declares no parameters of parted: it has no parted_parameters"),
        ({"tile": (1, 2)}, "has 'tile', which parted does not take; legal: x, parts, works_on"),
        ({"parts": (4,)}, "have only one combination: parts=4"),
    ],
)
def test_what_cannot_be_searched_is_refused(parameters, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        space_of(parted_case(parameters))
