import math
from dataclasses import replace

import numpy as np
import planner_worlds
import pytest
from row_cases import drawn_rows, row

from trnsim.calibrate.calibration import calibrate
from trnsim.calibrate.machines import check_machines
from trnsim.errors import BadInput


def steady(count, factor=2.0, first=2):
    """Rows that are all slower by a factor, with noise."""
    return [
        row(factor * 0.01 * math.exp(0.03 * math.sin(7 * at)), line=first + at)
        for at in range(count)
    ]


def test_two_chips_in_one_file_are_named_with_the_lines_of_the_fewer():
    said = (
        r"log\.csv:20: rows of trainium1 fall into two sets: 6 of 16 \(lines 20, 21, .*\) are "
        r"3\.\d times faster than the others, as if two chips were mixed"
    )
    with pytest.raises(BadInput, match=said) as caught:
        check_machines([*steady(10), *steady(6, 0.6, first=20)])
    assert "--on" in caught.value.fix


def test_the_fewer_may_be_the_slower_ones():
    with pytest.raises(BadInput, match=r"4 of 14 \(lines 20, 21, 22, 23\) are 4\.\d times slower"):
        check_machines([*steady(10), *steady(4, 8.0, first=20)])


def test_two_files_may_be_of_two_sets():
    others = [
        replace(
            one, measurement=replace(one.measurement, line=one.measurement.line._replace(file="b"))
        )
        for one in steady(8, 2.1)
    ]
    check_machines([*steady(8), *others])


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_rows_of_one_chip_are_not_two(noise):
    for seed in range(6):
        check_machines(drawn_rows(24, seed, noise=noise))


def mixed(seed):
    """The rows of a world on trn1, of which a random half ran on trn2."""
    rows = planner_worlds.rows_of_world(seed)
    drawn = np.random.default_rng(seed)
    times = {each.measurement.question: each.measurement.value for each in rows}
    log = []
    for each in rows:
        said = each.measurement
        if "--on trn1 " in said.question:
            other = times[said.question.replace("--on trn1 ", "--on trn2 ")]
            value = other if drawn.random() < 0.5 else said.value
            log.append(replace(each, measurement=replace(said, value=value)))
    return log


def is_noticed(rows):
    try:
        calibrate(rows, [], planner_worlds.DAY)
    except BadInput as error:
        return "two sets" in error.reason
    return False


@pytest.mark.slow
def test_two_chips_of_planners_worlds_are_noticed(monkeypatch):
    monkeypatch.chdir(planner_worlds.ROOT)
    assert np.mean([is_noticed(mixed(seed)) for seed in range(30)]) >= 0.9
    assert not any(is_noticed(planner_worlds.rows_of_world(seed)[:20]) for seed in range(30))
