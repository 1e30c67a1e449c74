import math

import pytest
from row_cases import estimated, row

from trnsim.calibrate.row import EstimatedFigure, Measurement, Row
from trnsim.errors import SourceLine


def test_a_row_has_the_ratio_of_its_times():
    assert row(0.02, estimated(time_s=0.01)).log_ratio == pytest.approx(math.log(2))
    assert row(0.02).group == ("trainium1", "decode")


def test_a_rate_becomes_the_time_of_its_tokens():
    own = EstimatedFigure("trainium1", "train", 1.0, (), 1.0, 0.9, 1.1, units=500.0)
    said = Measurement("plan train x", "tokens_per_s", 250.0, SourceLine("a.log", 1))
    assert Row(said, own).measured_s == 2.0
