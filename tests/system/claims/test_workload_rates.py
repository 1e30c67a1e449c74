from pathlib import Path

import pytest
from workload_rates import LARGE, SMALL, WORKLOADS, done, instances_of

CONFIGS = Path(__file__).parents[3] / "bench/system/configs"


def test_ten_workloads_with_reasons_and_committed_configurations():
    assert len({one.name for one in WORKLOADS}) == 10
    for one in WORKLOADS:
        assert one.why
        assert (CONFIGS / one.config).is_file()
        assert one.does == one.name.split()[0]


def test_one_chip_is_asked_only_for_what_makes_no_tokens():
    for one in WORKLOADS:
        assert set(SMALL) <= set(instances_of(one)) or one.does != "infer"
        assert instances_of(one)[: len(LARGE)] == LARGE


@pytest.mark.parametrize(
    ("instance", "is_fitted"), [("inf2.xlarge", True), ("inf1.xlarge", False), ("g5.xlarge", False)]
)
def test_what_nobody_published_is_named(instance, is_fitted):
    one = next(one for one in WORKLOADS if one.name == "infer BERT base")
    found = done(one, CONFIGS / one.config, instance)
    assert found.per_s > 0
    assert (not found.assumed) is is_fitted
