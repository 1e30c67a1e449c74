"""The example of a prepared exchange: values, and the time that it saves."""

import math

import numpy as np
import pytest


@pytest.fixture(scope="module")
def module(example):
    return example("prepared")


def test_two_steps_have_the_sums_of_one_and_save_the_start(module, tmp_path):
    one, two = module.run(is_prepared=False), module.run(is_prepared=True)
    gelu = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)
    given = [
        np.random.default_rng(rank).standard_normal((128, 512), dtype=np.float32)
        for rank in range(8)
    ]
    for rank in (0, 5):
        expected = sum(gelu(x[16 * rank : 16 * (rank + 1)]) for x in given)
        np.testing.assert_allclose(one.outputs[rank], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(two.outputs[rank], one.outputs[rank])
    assert "all_to_all_v_prepare" in two.runs[0].report(tmp_path / "page.html").read_text()
    assert one.total_time_s - two.total_time_s == pytest.approx(3.16e-6, rel=0.1)
