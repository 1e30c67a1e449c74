"""Sequences of programs with collectives: where ranks meet, wait in vain, or compile their own."""

import warnings

import pytest

from trnsim.device.program_sequence import (
    CutOfProgram,
    ProgramsDiffer,
    ProgramSequence,
    sequence_failure,
)


def cut(exchanges="x", digest="p", line="a.py:3", calls=None, number=0):
    return CutOfProgram(
        number, "sync", line, f"all_reduce {exchanges}", exchanges, digest, calls or {}
    )


def published(*cuts, ranks=(0, 1)):
    sequence = ProgramSequence()
    for each in cuts:
        sequence.add(ranks, each)
    return sequence.published(ranks)


def test_a_sequence_is_published_once_and_by_its_ranks():
    sequence = ProgramSequence()
    sequence.add((1, 0), cut())
    assert sequence.published((0, 2)) == ""
    assert sequence.published((0, 1)) == published(cut())
    assert sequence.published((0, 1)) == ""


@pytest.mark.parametrize(
    "texts",
    [
        ("", ""),
        (published(cut(), cut("y")), published(cut(), cut("y"))),
        (published(cut(line="a.py:3")), published(cut(line="b.py:4"))),  # lines alone may differ
        (published(*[cut()] * 9), published(*[cut()] * 9)),
    ],
)
def test_equal_sequences_meet_in_silence(texts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sequence_failure(dict(enumerate(texts))) is None


def test_a_program_that_one_rank_alone_cuts_is_named():
    for texts in (("", published(cut())), (published(cut()), published(cut(), cut("y", number=4)))):
        reason, fix = sequence_failure(dict(zip((0, 3), texts, strict=True)), "allreduce")
        assert reason.startswith(
            "rank 3 cuts a program with a collective that rank 0 does not cut before allreduce: on "
            "the chip it waits in it for rank 0\n  rank 0: no program\n  rank 3: program "
        )
        assert "xm.add_step_closure" in fix
    reason, _ = sequence_failure({0: published(cut()), 1: ""})
    assert reason.startswith("rank 0 cuts a program with a collective that rank 1 does not cut")


def test_other_collectives_are_named_with_the_first_of_three_ranks_that_differs():
    alike = published(cut(calls={"a.py:1": "0", "a.py:2": "1"}))
    other = published(cut("y", "q", "b.py:9", {"a.py:1": "0", "b.py:5": "2"}, number=7))
    reason, _ = sequence_failure({0: alike, 1: alike, 2: other})
    assert reason.splitlines() == [
        (
            "ranks 0 and 2 cut programs with other collectives before a collective: on the chip "
            "they wait for each other"
        ),
        "  rank 0: program 0, cut by sync at a.py:3, with all_reduce x",
        "  rank 2: program 7, cut by sync at b.py:9, with all_reduce y",
        "  the first calls that differ: rank 0 at a.py:2, rank 2 at b.py:5",
    ]


def test_programs_beyond_the_eighth_are_compared_by_number_and_digest():
    eight = [cut()] * 8
    for others in ([*eight, cut("y")], [*eight, cut(), cut()]):
        reason, _ = sequence_failure({0: published(*eight, cut()), 1: published(*others)})
        assert reason == (
            "ranks 0 and 1 cut other programs with collectives before a collective, from the 9th "
            "on: on the chip they wait for each other"
        )


def test_programs_with_equal_collectives_are_warned_of_at_the_cut():
    texts = {0: published(cut(calls={"a.py:1": "0"})), 1: published(cut("x", "q", "b.py:5"))}
    with pytest.warns(
        ProgramsDiffer, match=r"(?s)each compiles.*rank 0 at a.py:1\n  fix"
    ) as warned:
        assert sequence_failure(texts) is None
    assert (warned[0].filename, warned[0].lineno) == ("a.py", 3)
    text = published(cut(line="no line", digest="r"))
    with pytest.warns(ProgramsDiffer):
        sequence_failure({0: text, 1: texts[1]})
