import re

from trnsim.system.claims.amounts import Grade
from trnsim.system.claims.published import FACTS, TABLES, stated_basis


def test_every_fact_has_a_day_and_a_source():
    measured = [one for table in TABLES.values() for pair in table.values() for one in pair]
    for fact in (*FACTS.values(), *measured):
        assert re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", fact.day)
        assert fact.source
    assert {fact.kind for fact in measured} == {Grade.MEASURED}


def test_own_word_stands_in():
    assert stated_basis("Rainier, chips").is_stand_in
    assert not stated_basis("Inf2 first supported").is_stand_in


def test_a_fact_is_a_number_where_it_is_one():
    assert FACTS["invested in Anthropic"].amount.value == 8
    assert stated_basis("TorchNeuron", "words").text == "words"
