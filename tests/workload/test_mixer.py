"""Sizes of mixers."""

import pytest

from trnsim.workload.mixer import Mixer


def test_a_mixer_counts_values_keys_and_queries():
    mixer = Mixer(heads=6, groups=2, state=5, head_dim=8, taps=4, chunk=4)
    assert mixer.width == 48
    assert mixer.channels == 48 + 2 * 2 * 5
    assert mixer.state_elements == 6 * 5 * 8


@pytest.mark.parametrize(
    ("heads", "groups", "ranks", "divides"),
    [(8, 2, 1, True), (8, 2, 2, True), (8, 2, 4, True), (8, 4, 3, False), (6, 3, 2, False)],
)
def test_ranks_share_heads_and_groups_equally(heads, groups, ranks, divides):
    assert Mixer(heads, groups, 4, 4, taps=4, chunk=4).divides(ranks) == divides
