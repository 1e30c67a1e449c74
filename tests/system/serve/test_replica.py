"""What one replica does next, step by step."""

import pytest
from replica_cases import replica, sequence

from trnsim.errors import InternalError


def test_nothing_to_do_is_no_step():
    one = replica()
    assert one.plan(0.0) is None
    assert one.is_idle
    with pytest.raises(InternalError, match=r"^a replica ends a step that it did not begin"):
        one.complete(0.0)


def test_a_request_that_could_begin_ends_the_steps_at_the_next_one():
    one = replica()
    one.add(sequence(0, 100, 60))
    one.plan(0.0)
    one.complete(1.0)
    one.plan(1.0)
    one.add(sequence(1, 10, 5))
    assert one.interrupt(1.3) == 1.0 + 3 * 0.125
    assert one.decodes == {(4, 128): 3}
    assert one.sequence_steps == 3


def test_a_request_that_has_no_place_changes_nothing():
    one = replica(sequences=1)
    one.add(sequence(0, 100, 60))
    one.plan(0.0)
    one.complete(1.0)
    one.plan(1.0)
    one.add(sequence(1, 10, 5))
    assert one.interrupt(1.3) is None
    assert one.decodes == {(1, 128): 28}
