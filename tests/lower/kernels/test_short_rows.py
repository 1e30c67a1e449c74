"""When short rows share partitions: where rows are many, short, and little is computed beside."""

from types import SimpleNamespace

import pytest

from trnsim.arch import target
from trnsim.lower.kernels import short_rows
from trnsim.lower.kernels.short_rows import LONGEST_SHORT_ROW, are_shared_partitions_faster


@pytest.fixture
def on_chip(monkeypatch):
    def choose(chip):
        core = SimpleNamespace(core=target(chip).core)
        monkeypatch.setattr(short_rows, "current_core", lambda: core)

    return choose


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_only_short_rows_beyond_one_for_each_partition_share(on_chip, chip):
    on_chip(chip)
    assert are_shared_partitions_faster((129, 1), 2, 0.0)
    assert not are_shared_partitions_faster((128, 1), 2, 0.0)
    assert are_shared_partitions_faster((1 << 20, LONGEST_SHORT_ROW), 4, 0.0)
    assert not are_shared_partitions_faster((1 << 20, LONGEST_SHORT_ROW + 1), 4, 0.0)


@pytest.mark.parametrize(("chip", "issue_s"), [("trn1", 0.05e-6), ("trn2", 0.6e-6)])
def test_rows_share_as_long_as_computing_takes_less_than_their_transfers_issues(
    on_chip, chip, issue_s
):
    """A load and a store for each 128 rows; Trainium1 has two queues for its 100 ns."""
    on_chip(chip)
    issues_s = 2 * 100 * issue_s
    assert are_shared_partitions_faster((12_800, 1), 2, 0.8 * issues_s)
    assert not are_shared_partitions_faster((12_800, 1), 2, 0.9 * issues_s)
