"""Rates of a core against the documented figures of its chip."""

import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.arch.peaks import hbm_stack_bytes_per_s, peak_flop_per_s


def test_the_peak_is_rows_columns_and_clock():
    assert peak_flop_per_s(NEURONCORE_V3) == 2 * 128 * 128 * 2.4e9


@pytest.mark.parametrize(
    ("core", "bytes_per_s"),
    # 820 GiB/s, 2.9 TB/s and 4.9 TB/s a chip, in 2, 4 and 4 stacks.
    [(NEURONCORE_V2, 440.2e9), (NEURONCORE_V3, 725e9), (NEURONCORE_V4, 1225e9)],
)
def test_a_stack_has_its_part_of_the_chips_bandwidth(core, bytes_per_s):
    assert hbm_stack_bytes_per_s(core) == pytest.approx(bytes_per_s, rel=1e-3)
