"""What forbids a move, and what only speaks against it."""

from dataclasses import replace

import pytest
from rule_cases import BEST, rule

from trnsim.decide.decision import Migration, ProgramFinding
from trnsim.decide.rules import FORBIDS
from trnsim.facts import Interval

KERNEL = ProgramFinding("scan.cu", 3, "cuda", "scan")


@pytest.mark.parametrize(
    ("name", "quiet", "loud", "text"),
    [
        ("CUDA-only", {}, {"framework": "cuda"}, "framework is cuda"),
        ("CUDA-only", {"findings": ()}, {"findings": (KERNEL,)}, "scan.cu:3: a kernel of cuda"),
        (
            "maximum performance",
            {"is_limit_met": True},
            {"is_limit_met": False},
            "no instance with AWS's chips keeps what is promised",
        ),
        ("several clouds", {}, {"is_portability_needed": True}, "portability_needed is yes"),
    ],
)
def test_one_input_forbids_a_move(name, quiet, loud, text):
    assert rule(name, **quiet).applies is False
    forbidden = rule(name, **loud)
    assert (forbidden.applies, forbidden.effect) == (True, FORBIDS)
    assert text in forbidden.evidence


def test_another_finding_is_no_kernel():
    call = ProgramFinding("train.py", 3, "device call", "cuda()")
    assert rule("CUDA-only", findings=(call,)).applies is False


def test_a_cloud_besides_is_no_need_of_portability():
    assert rule("several clouds", other_clouds=("gcp",)).applies is False


SMALL = "small: a migration costs more than it saves"


@pytest.mark.parametrize(("usd", "applies"), [(480_000.0, False), (480_001.0, True)])
def test_a_migration_is_compared_with_what_a_year_saves(usd, applies):
    """40 % of 100,000 USD in 12 months."""
    found = rule(SMALL, migration=Migration(1.0, usd, usd))
    assert found.applies is applies
    assert found.effect != FORBIDS
    assert "480,000 USD saved in 12 months at P50" in found.evidence


def test_without_a_saving_it_is_compared_with_the_bills():
    cost = Migration(1.0, 1.3e6, 1.3e6)
    assert rule(SMALL, best=None, migration=cost).applies
    assert rule(SMALL, best=None).applies is False


def test_without_framework_or_sources_nobody_knows():
    assert rule("CUDA-only", framework=None).applies is None
    assert rule("maximum performance").applies is None


def test_a_limit_that_no_instance_can_be_asked_about_is_no_missing_limit():
    assert "no deadline is promised" in rule("maximum performance").evidence
    found = rule("maximum performance", deadline_hours=10.0)
    assert found.applies is None
    assert found.evidence == "a limit is promised, and no instance with AWS's chips can run it"


def test_a_limit_of_another_kind_promises_nothing():
    found = rule("maximum performance", kind="serve", deadline_hours=10.0)
    assert found.evidence == "no latency and no deadline is promised"


def test_what_saves_nothing_says_so():
    dear = replace(BEST, saving=Interval(-0.5, -0.2, 0.1))
    found = rule(SMALL, best=dear)
    assert found.applies
    assert found.evidence == "nothing saved at P50, 60,000 USD to move"
