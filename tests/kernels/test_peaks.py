"""Documented peaks are reached by running kernels, and time follows what a kernel does."""

import sys
from pathlib import Path

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import peaks

BF16 = ml_dtypes.bfloat16


@pytest.mark.slow
def test_every_documented_peak_is_reached():
    for name, target, found, documented, _ in peaks.rows():
        assert 0.95 <= found / documented <= 1.001, (name, target)


def test_chips_come_to_clock_times_array():
    found = {(chip, kind): round(tflop_per_s) for chip, kind, tflop_per_s, _ in peaks.chips()}
    assert found == {("Trn2", "bf16"): 629, ("Trn2", "fp8"): 1258, ("Trn3", "MX"): 2517}


@nki.jit
def tiled(left, right, buffers):
    """left.T @ right in tiles of 128 x 128 x 512, with `buffers` tiles of each operand at once."""
    (depth, rows), columns = left.shape, right.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    rooms = [
        (
            nl.ndarray((128, 128), dtype=left.dtype, buffer=nl.sbuf),
            nl.ndarray((128, 512), dtype=left.dtype, buffer=nl.sbuf),
        )
        for _ in range(buffers)
    ]
    turn = 0
    for m in range(0, rows, 128):
        for n in range(0, columns, 512):
            psum = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, 128):
                a, b = rooms[turn % buffers]
                turn += 1
                nisa.dma_copy(dst=a, src=left[k : k + 128, m : m + 128])
                nisa.dma_copy(dst=b, src=right[k : k + 128, n : n + 512])
                nisa.nc_matmul(psum, a, b)
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(result, psum)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 512], src=result)
    return out


def device_s(m=256, n=1024, k=1024, buffers=4, **options):
    left, right = np.ones((k, m), BF16), np.ones((k, n), BF16)
    return trnsim.run(tiled, left, right, buffers, **options).timeline.device_time_s


@pytest.mark.parametrize("axis", ["m", "n", "k"])
def test_doubling_an_axis_of_a_matmul_doubles_its_time(axis):
    once = {"m": 256, "n": 1024, "k": 1024}[axis]
    times = [device_s(numerics=False, **{axis: once * factor}) for factor in (1, 2, 4)]
    first, second = np.diff(times)
    assert second == pytest.approx(2 * first, rel=0.05)
    assert 1.8 < times[2] / times[1] < 2.1


def test_without_double_buffering_loads_wait_for_the_matmul_that_uses_their_room():
    left, right = np.ones((1024, 128), BF16), np.ones((1024, 512), BF16)
    runs = [trnsim.run(tiled, left, right, n, numerics=False) for n in (1, 4)]
    single, double = (run.timeline for run in runs)
    assert single.device_time_s > 1.5 * double.device_time_s

    def causes(timeline):
        waits = [
            timeline.span(span.waited_for).opcode
            for span in timeline.spans()
            if span.opcode == "dma_copy" and span.waited_for is not None
        ]
        return waits.count("nc_matmul")

    assert causes(single) >= 7
    assert causes(double) == 0


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_time_is_the_same_with_and_without_values_and_from_run_to_run(target):
    times = {device_s(numerics=numerics, target=target) for numerics in (True, False, True)}
    assert len(times) == 1
