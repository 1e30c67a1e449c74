import numpy as np
import pytest

from trnsim.system.expert_load import busiest_summary, imbalance
from trnsim.workload.operators import Axis, Exchange, Product
from trnsim.workload.summary import PartSummary


def test_the_busiest_of_many_ranks_has_more_than_its_share():
    assert imbalance(1000, 1) == 1.0
    assert imbalance(1000, 8) == pytest.approx(1.064, abs=1e-3)
    assert imbalance(1000, 64) > imbalance(1000, 8) > imbalance(4000, 8)
    assert imbalance(1e12, 8) == pytest.approx(1.0, abs=1e-5)


def test_all_assignments_of_few_lie_on_one_rank_at_most():
    assert imbalance(1, 2) == imbalance(0.0, 2) == 2
    assert imbalance(0.5, 64) < 64


@pytest.mark.parametrize(("mean", "ranks"), [(16, 8), (64, 8), (1000, 64)])
def test_it_bounds_the_mean_of_the_largest_of_random_counts_closely(mean, ranks):
    counts = np.random.default_rng(0).multinomial(mean * ranks, [1 / ranks] * ranks, 2000)
    largest = counts.max(axis=1).mean() / mean
    assert largest < imbalance(mean, ranks) < 1 + 1.6 * (largest - 1)


def test_products_and_exchanges_of_experts_alone_grow():
    products = (Product("expert up", 8, 4, 2, 3), Product("query", 8, 4, 2))
    exchanges = (
        Exchange("all_to_all", 64.0, Axis.EXPERT),
        Exchange("all_reduce", 64.0, Axis.TENSOR),
    )
    busiest = busiest_summary(PartSummary("layer", 2, products, (), exchanges), 1.5)
    assert [product.m for product in busiest.products] == [12, 8]
    assert [sent.nbytes for sent in busiest.exchanges] == [96.0, 64.0]
