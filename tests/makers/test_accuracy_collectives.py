import pytest
from accuracy_collectives import DOCUMENTED_MB, PUBLISHED, crossover_bytes, page

from trnsim.fabric.fabric import fabric

NODE = fabric("trn2.48xlarge", lnc=2)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_reduce"])
def test_recursive_doubling_ends_where_aws_says_within_a_factor_of_two(kind):
    found = crossover_bytes(NODE, kind, *DOCUMENTED_MB[1][:2]) / 1e6
    assert 56 / 2 < found < 56 * 2


def test_a_crossover_is_where_both_take_the_same():
    """By hand: three hops more, against the bytes that a mesh passes twice over a link."""
    chunk = 1 / 64
    hbm, link = 2.9e12, 128e9
    mesh = 32 * chunk / link + 4 * (16 + 48) * chunk / hbm
    doubling = 15 * chunk / link + 4 * (16 + 48) * chunk / hbm
    found = crossover_bytes(NODE, "all_gather", "mesh", "rdh")
    assert found == pytest.approx(3 * 1.5e-6 / (mesh - doubling), rel=1e-6)


@pytest.mark.slow
def test_slopes_of_large_messages_are_as_published():
    large = [one for one in PUBLISHED if one.nbytes >= 1 << 24]
    assert len(large) == 3
    text = page()
    for one in large:
        cells = next(
            row for line in text.splitlines()
            if len(row := [cell.strip() for cell in line.split("|")]) > 8
            and row[3] == f"{one.nbytes:,}"
        )  # fmt: skip
        assert abs(int(cells[7])) <= 25


@pytest.mark.slow
def test_the_page_has_every_row():
    lines = page().splitlines()
    assert sum(line.startswith("| all_") for line in lines) >= len(PUBLISHED) + 4
