"""`nl.tile_size`: AWS's list of limits. Their values a generation: tests/nki/test_language.py."""

import pytest

from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bn_stats_fmax", 512),
        ("psum_min_align", 2048),
        ("sbuf_min_align", 1),
        ("psum_num_banks", 8),
    ],
)
def test_a_limit_that_all_generations_share(name, value, core):
    with issuing_to(CoreContext(core)):
        assert getattr(nl.tile_size, name) == value


def test_a_bank_goes_to_transposes_that_the_tensor_engine_makes_for_the_dma(core, monkeypatch):
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "true")
    with issuing_to(CoreContext(core)):
        assert nl.tile_size.psum_num_banks == (8 if core.generation == 2 else 7)
