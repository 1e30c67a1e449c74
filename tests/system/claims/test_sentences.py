"""The claims' file: every sentence is read whole, and in the order of the file."""

from trnsim.arch.catalogue import catalogue
from trnsim.system.claims.published import FACTS, yaml_data
from trnsim.system.claims.rows import RowReader
from trnsim.system.claims.sentences import DOCUMENTS, judged_claims

SENTENCES = yaml_data("claims.yaml")


def test_claims_are_the_files_sentences():
    found = judged_claims(RowReader(catalogue()))
    assert [(one.id, one.quote, one.says) for one in found] == [
        (one["id"], one["quote"], one["says"]) for one in SENTENCES
    ]
    assert [len(one.parts) for one in found] == [len(one["parts"]) for one in SENTENCES]


def test_no_sentence_has_a_key_that_is_not_read():
    for sentence in SENTENCES:
        assert sentence.keys() <= {"id", "documents", "quote", "says", "parts", "besides", "notes"}
        assert sentence["documents"] in DOCUMENTS
        for part in sentence["parts"]:
            assert part.keys() <= {"quantity", "claimed", "unit", "is_varied", "figures"}
            assert part["figures"]


def test_every_fact_is_stated_by_a_sentence():
    text = str(SENTENCES)
    assert [name for name in FACTS if name not in text] == []


def test_what_is_assumed_of_a_migration_stands_in_the_words():
    (claim,) = (one for one in judged_claims(RowReader(catalogue())) if one.id == "C31")
    assert claim.parts[0].bases[0].text == "migration of 60,000 USD (assumed), 40% saved"
