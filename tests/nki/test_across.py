"""Tests of one program under every version of NKI, and of the rows that explain its ends."""

import ml_dtypes
import numpy as np
import pytest
import torch

from trnsim import errors
from trnsim.behaviours import LATEST, VERSIONS, Behaviour, Effect
from trnsim.behaviours.chosen import asked_version
from trnsim.nki.across import End, equal_outputs, outcomes_by_version, watched_version


def row(name, since="0.2", until=None, effect=Effect.values):
    return Behaviour(
        name=name, since=since, until=until, rule="a", otherwise="b", instead="c", source="d",
        effect=effect,
    )  # fmt: skip


FIRST = row("first", since="0.4")
SECOND = row("second", until="0.6")
UNUSED = row("unused", since="0.4")


def follows(behaviour):
    return asked_version().version.follows(behaviour)


def test_other_values_are_traced_to_the_row_that_changes_them():
    def program():
        follows(UNUSED)
        return [np.array([1.0 if follows(FIRST) else 2.0, follows(SECOND) * 0.0])]

    ends = outcomes_by_version(program, LATEST)
    assert [end.end for end in ends] == [End.other, End.other, *[End.same] * 4]
    assert ends[0].causes == ends[1].causes == (FIRST,)


def test_rows_that_change_values_only_together_are_all_named():
    def program():
        return [np.array([float(follows(FIRST) or not follows(SECOND))])]

    ends = outcomes_by_version(program, VERSIONS["0.5"])
    assert ends[0].end is End.other  # 0.2 lacks the first and has the second
    assert ends[0].causes == (FIRST,)
    joint = outcomes_by_version(
        lambda: [np.array([follows(FIRST) == follows(SECOND)])], VERSIONS["0.3"]
    )
    assert joint[4].end is End.same  # both are exchanged: their causes cancel


def test_a_refusal_names_the_row_that_was_asked_last():
    def program():
        follows(UNUSED)
        if not follows(SECOND):
            raise SECOND.refusal(asked_version().version, "old()")
        return []

    ends = outcomes_by_version(program, VERSIONS["0.2"])
    assert [end.end for end in ends] == [*[End.same] * 4, End.refused, End.refused]
    assert ends[-1].causes == (SECOND,)
    assert "old() under NKI 0.7, where b" in ends[-1].error.reason


def test_an_error_of_the_programs_own_is_no_refusal():
    def program():
        assert follows(FIRST), "reference differs"
        return []

    ends = outcomes_by_version(program, LATEST)
    assert [end.end for end in ends][:3] == [End.failed, End.failed, End.same]
    assert str(ends[0].error).startswith("reference differs")
    assert ends[0].causes == (FIRST,)


def test_an_error_under_the_reference_is_the_callers():
    def program():
        raise errors.BadInput("no", fix="yes")

    with pytest.raises(errors.BadInput):
        outcomes_by_version(program, LATEST)


def test_a_watched_version_keeps_its_answers_and_is_equal_to_no_other():
    one, other = watched_version(LATEST, FIRST), watched_version(LATEST, FIRST)
    assert one.follows(FIRST) is not LATEST.follows(FIRST)
    assert one.answers == {FIRST: False}
    assert one != other
    assert len({one, other, LATEST}) == 3


BF16 = np.array([1.0, np.nan], ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
        (np.zeros(2, np.int32), np.zeros(2, np.float32), False),
        (BF16, BF16.copy(), True),
        ([np.ones(2), 3], [np.ones(2), 3], True),
        ([np.ones(2)], [np.ones(2), None], False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": (1, None)}, {"a": (1, None)}, True),
        (None, None, True),
        (None, 0, False),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16), True),
        (torch.ones(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16), False),
        (torch.zeros(0), torch.zeros(0), True),
        (torch.zeros(2, 3), torch.zeros(3, 2), False),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32), False),
        (torch.tensor(1.0), torch.tensor(1.0), True),
    ],
)
def test_results_are_equal_bit_for_bit(left, right, equal):
    assert equal_outputs(left, right) is equal
