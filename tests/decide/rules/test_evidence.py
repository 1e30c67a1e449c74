"""Evidence, and that every rule of the document is told once."""

from rule_cases import BEST, evidence

from trnsim.decide.rules import rules


def test_the_saving_is_that_of_the_best_place():
    assert evidence().saving == BEST.saving.p50
    assert evidence(best=None).saving is None


def test_every_rule_of_the_document_is_there():
    groups = {}
    for one in rules(evidence("serve")):
        groups.setdefault(one.group, []).append(one.name)
    assert groups == {
        "ideal": [
            "training of a transformer",
            "more than 100 chips",
            "PyTorch or JAX",
            "a saving of 30 to 50 %",
            "committed to AWS",
        ],
        "considerations": [
            "support of operators",
            "engineering time",
            "lock-in to AWS",
            "verification of the performance",
        ],
        "not-recommended": [
            "CUDA-only",
            "maximum performance",
            "several clouds",
            "small: a migration costs more than it saves",
        ],
        "inferentia": [
            "high volume",
            "latency-tolerant batch",
            "standard architecture",
            "10,000 USD a month",
            "100,000 USD a month",
        ],
    }


def test_each_rule_says_what_it_rests_on():
    assert all(one.evidence and one.effect for one in rules(evidence("infer", best=None)))
