import pytest
from accuracy_collectives import DOCUMENTED_MB, crossover_bytes, page
from collective_fit import TABLES, all_rows

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
def test_the_page_has_every_row_with_its_interval():
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page().splitlines()]
    rows = [cells for cells in lines if len(cells) == 11 and cells[6] in ("yes", "no")]
    assert len(rows) == len(all_rows())
    assert {cells[10] for cells in rows} == {"yes", "no"}
    assert {cells[0] for cells in rows} == {name.removeprefix("nccom-") for name in TABLES}
