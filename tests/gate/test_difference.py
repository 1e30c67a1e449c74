from dataclasses import replace

import numpy as np
import pytest
from gate_samples import scaled, scaled_twice, timed

from trnsim.gate.difference import difference
from trnsim.gate.kernel_time import DrawnConstant


@pytest.fixture(scope="module")
def times():
    return timed(scaled), timed(scaled_twice)


def of_another_model(time, **constants):
    """The same time, as if a trnsim with other constants had estimated it."""
    changed = {**time.constants, **{n: DrawnConstant(v, 0.0) for n, v in constants.items()}}
    return replace(time, model="0.0.9+0", constants=changed)


def test_an_equal_kernel_is_as_fast(times):
    (run, time), _ = times
    shift = difference(time, time, run.timeline)
    assert shift.total.change_us == 0
    assert not shift.total.is_significant
    assert shift.is_same_source
    assert not shift.is_upgrade


def test_a_change_of_the_kernel_is_the_kernels(times):
    (_, before), (run, after) = times
    shift = difference(before, after, run.timeline)
    assert shift.kernel == shift.total
    assert shift.kernel.is_slower
    assert shift.kernel.change_us == pytest.approx(after.time_us - before.time_us)
    assert shift.kernel.interval_us.p10 <= shift.kernel.change_us <= shift.kernel.interval_us.p90
    assert not shift.upgrade.is_significant
    assert not shift.is_split
    back = difference(after, before, run.timeline)
    assert back.kernel.is_faster
    assert back.kernel.change_us == -shift.kernel.change_us


def test_both_sides_have_the_same_draws(times):
    """The launch varies most, and it is in both: it leaves no trace in the difference."""
    (_, before), (run, after) = times
    paired = difference(before, after, run.timeline).kernel.interval_us
    turned = replace(before, draws_us=before.draws_us[::-1])
    apart = difference(turned, after, run.timeline).kernel.interval_us
    assert paired.p90 - paired.p10 < 0.5 * (apart.p90 - apart.p10)
    launches = np.array(launch_draws(before))
    differences = np.array(after.draws_us) - np.array(before.draws_us)
    assert abs(np.corrcoef(launches, differences)[0, 1]) < 0.3
    assert np.corrcoef(launches, before.draws_us)[0, 1] > 0.9


def test_a_change_of_the_model_alone_is_the_upgrades(times):
    (run, time), _ = times
    launch_us = time.constants["launch_s"].value * 1e6
    draws = tuple(draw - 1 for draw in time.draws_us)
    before = replace(of_another_model(time), time_us=time.time_us - 1, draws_us=draws)
    shift = difference(before, time, run.timeline)
    assert shift.upgrade.is_slower
    assert shift.upgrade.change_us == pytest.approx(1, abs=1e-3)
    assert not shift.kernel.is_significant
    assert shift.is_upgrade
    assert launch_us > 1
    assert shift.constants == ()


def test_an_equal_version_with_other_constants_is_another_model(times):
    (run, time), _ = times
    constants = {**time.constants, "launch_s": DrawnConstant(1e-6, 0.0)}
    shift = difference(replace(time, constants=constants), time, run.timeline)
    assert shift.is_upgrade
    (row,) = shift.constants
    assert (row.name, row.before) == ("launch_s", 1e-6)
    assert row.after == time.constants["launch_s"].value
    draws = tuple(draw - 1 for draw in time.draws_us)
    shift = difference(
        replace(time, constants=constants, time_us=time.time_us - 1, draws_us=draws),
        time,
        run.timeline,
    )
    assert shift.upgrade.is_slower
    assert not shift.kernel.is_significant


def test_constants_that_come_and_go_are_named(times):
    (run, time), _ = times
    constants = {**time.constants, "former_s": DrawnConstant(1.0, 0.0)}
    del constants["launch_s"]
    shift = difference(replace(time, constants=constants), time, run.timeline)
    assert [(row.name, row.before is None, row.after is None) for row in shift.constants] == [
        ("former_s", False, True),
        ("launch_s", True, False),
    ]


def test_of_two_changes_the_kernels_part_is_with_the_former_constants(times):
    (_, before), (run, after) = times
    former_launch_s = after.constants["launch_s"].value - 4e-6
    old = of_another_model(before, launch_s=former_launch_s)
    old = replace(
        old,
        time_us=before.time_us - 4,
        draws_us=tuple(
            # The launch has no spread there: its draws are its value.
            draw - launch_draw + former_launch_s * 1e6
            for draw, launch_draw in zip(before.draws_us, launch_draws(before), strict=True)
        ),
    )
    shift = difference(old, after, run.timeline)
    assert shift.is_split
    assert shift.kernel.change_us == pytest.approx(after.time_us - before.time_us, abs=0.01)
    assert shift.upgrade.change_us == pytest.approx(4, abs=0.01)
    assert shift.total.change_us == pytest.approx(
        shift.kernel.change_us + shift.upgrade.change_us, abs=1e-3
    )


def launch_draws(time):
    """The launch of each draw of a time, in microseconds."""
    from trnsim import arch  # noqa: PLC0415
    from trnsim.arch.draws import sample_core  # noqa: PLC0415

    core = arch.target(time.chip).core
    return [float(sample_core(core, draw).launch_s) * 1e6 for draw in range(len(time.draws_us))]


def test_a_difference_within_a_thousandth_is_none(times):
    (run, time), _ = times
    for share, counts in ((0.0009, False), (0.002, True)):
        draws = tuple(draw - share * time.time_us for draw in time.draws_us)
        before = replace(time, source="other", draws_us=draws, time_us=time.time_us * (1 - share))
        assert difference(before, time, run.timeline).kernel.is_significant is counts


def test_a_difference_whose_interval_holds_zero_does_not_count(times):
    (run, time), _ = times
    draws = tuple(d + (2 if at % 4 == 0 else -2) for at, d in enumerate(time.draws_us))
    before = replace(time, source="other", draws_us=draws)
    shift = difference(before, time, run.timeline)
    assert shift.kernel.interval_us.p10 < 0 < shift.kernel.interval_us.p90
    assert not shift.kernel.is_significant


def test_fewer_draws_of_one_side_are_compared_with_as_many(times):
    (run, time), _ = times
    shift = difference(replace(time, draws_us=time.draws_us[:10]), time, run.timeline)
    assert shift.total.interval_us.p90 == 0
