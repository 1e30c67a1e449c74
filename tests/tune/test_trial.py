from types import FunctionType

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from tuned_kernels import X, parted, parted_case

from trnsim import arch
from trnsim.gate.kernel_time import DRAWS
from trnsim.runner import run
from trnsim.tune.space import space_of
from trnsim.tune.trial import trial, trial_result

TRN2 = arch.target("trn2")
PARTS = space_of(parted_case({"parts": (1, 2, 3, 4)}))


def test_a_trial_has_the_time_of_a_run():
    result = trial_result(PARTS, (1,), TRN2)
    expected = run(parted, X, parts=2)
    assert result["time_us"] == pytest.approx(expected.total_time_s * 1e6, abs=1e-3)
    assert len(result["draws_us"]) == DRAWS
    assert result["busiest"] == "DMA"
    assert 0 < result["busy_share"] <= 1


def test_a_setting_that_the_kernel_refuses_is_not_legal():
    assert trial_result(PARTS, (2,), TRN2)["kind"] == "AssertionError"
    assert "3 parts" in trial_result(PARTS, (2,), TRN2)["error"]
    wide = space_of(parted_case({"parts": (1, 2)}, arguments=(X.repeat(2, axis=0),)))
    assert trial_result(wide, (0,), TRN2)["kind"] == "IllegalInstruction"


def test_a_setting_with_an_error_of_the_kernels_own_is_not_legal(monkeypatch):
    space = space_of(parted_case({"parts": (0, 1)}))
    assert trial_result(space, (1,), TRN2) == {
        "error": "ZeroDivisionError: integer modulo by zero",
        "kind": "ZeroDivisionError",
    }

    def failing(*_arguments, **_keywords):
        return {}[3]

    failing = FunctionType(failing.__code__.replace(co_filename=arch.__file__), {})
    monkeypatch.setattr("trnsim.tune.trial.launch", failing)
    with pytest.raises(KeyError):
        trial_result(space, (1,), TRN2)


def test_a_trial_ends_where_its_bound_exceeds_the_limit():
    space = space_of(parted_case({"extra": (0, 300)}))
    whole = trial_result(space, (1,), TRN2)["time_us"]
    ended = trial_result(space, (1,), TRN2, limit_us=200.0)
    assert 200 < ended["beyond_us"] <= whole
    assert "time_us" not in ended
    assert trial_result(space, (1,), TRN2, limit_us=whole)["time_us"] == whole


@nki.jit
def paired(x, times=1):
    """Two engines that work at once, each on a tile of its own."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(2)]
    for tile in tiles:
        nisa.dma_copy(dst=tile, src=x)
    for _ in range(times):
        for tile, engine in zip(tiles, (nisa.engine.vector, nisa.engine.scalar), strict=True):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=engine)
    for tile in tiles:
        nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_bound_is_no_sum_of_engines_that_work_at_once():
    space = space_of(parted_case({"times": (1, 600)}, kernel=paired))
    whole = trial_result(space, (1,), TRN2)["time_us"]
    assert trial_result(space, (1,), TRN2, limit_us=whole)["time_us"] == whole
    assert trial_result(space, (1,), TRN2, limit_us=0.75 * whole)["beyond_us"] <= whole


def test_a_trial_by_names_is_that_of_the_file(tmp_path):
    file = tmp_path / "trial_of_a_test.py"
    file.write_text(
        "from tuned_kernels import X, parted\n"
        "parted_inputs = (X,)\nparted_parameters = {'parts': [1, 2]}\n"
    )
    point = [[2], None]
    found = trial(point, file=str(file), kernel="parted", chip="trn2", identity="a")
    assert found["time_us"] == trial_result(PARTS, (1,), TRN2)["time_us"]
