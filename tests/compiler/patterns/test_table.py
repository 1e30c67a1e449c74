"""The table of patterns."""

from trnsim.compiler.patterns.table import PATTERNS
from trnsim.graph import Operation
from trnsim.lower.legalize import legal_patterns


def test_every_pattern_has_a_name_of_its_own_and_says_in_a_line_what_it_does():
    names = [one.name for one in PATTERNS]
    assert len({*names}) == len(names)
    for one in PATTERNS:
        assert 0 < len(one.meaning) <= 100, one.name
        assert "\n" not in one.meaning
        assert not one.meaning.endswith("."), one.name


def test_every_pattern_ends_with_operations():
    for one in PATTERNS:
        assert all(issubclass(kind, Operation) for kind in one.before.operations), one.name


def test_legal_forms_are_needed_and_no_others():
    needed = [one for one in PATTERNS if one.is_needed]
    assert needed == list(legal_patterns())


def test_operations_stay_that_are_issued_together():
    assert [one.name for one in PATTERNS if one.after is None] == ["rotation", "enlarging"]
