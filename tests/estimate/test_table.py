import json

import pytest
from layer_sizes import LLAMA, layer

from trnsim.estimate import table
from trnsim.estimate.table import Curve, Point, Table, keep, rank_of, read, signature, write
from trnsim.lower import cache
from trnsim.workload.operators import Pass, Phase, Split

GIVEN = Pass(Phase.PREFILL, 1, 512)
CURVE = Curve((Point(1, 128, 1e-4), Point(1, 512, 4e-4), Point(4, 128, 2e-4), Point(4, 512, 16e-4)))


def test_points_are_met():
    assert CURVE.at(1, 128) == 1e-4
    assert CURVE.at(4, 512) == 16e-4


def test_between_points_logarithms_are_straight():
    assert CURVE.at(1, 256) == pytest.approx(2e-4)
    assert CURVE.at(2, 128) == pytest.approx(2**0.5 * 1e-4)
    assert CURVE.at(2, 256) == pytest.approx((2e-4 * (2e-4 * 16e-4) ** 0.5) ** 0.5)


@pytest.mark.parametrize(("batch", "length"), [(1, 127), (1, 513), (8, 128), (0.5, 128)])
def test_beyond_points_there_is_no_answer(batch, length):
    assert CURVE.at(batch, length) is None


def test_more_is_never_faster():
    falling = Curve((Point(1, 128, 3e-4), Point(1, 256, 2e-4), Point(1, 512, 4e-4)))
    found = [falling.at(1, length) for length in (128, 150, 256, 300, 512)]
    assert found == sorted(found)
    assert found[2] == 3e-4


def test_a_layer_is_known_by_its_sizes_on_a_rank():
    mine = signature(layer(LLAMA, GIVEN), GIVEN)
    step = Pass(Phase.DECODE, 8, 1, 2000)
    assert signature(layer(LLAMA, step), step) == mine
    assert signature(layer(LLAMA, GIVEN, Split(8)), GIVEN) != mine
    assert "query 4096 x 4096" in mine
    assert "32 heads of 128" in mine


def test_equal_cores_of_two_chips_are_one_kind_of_rank():
    assert rank_of("trn1", 1) == rank_of("inf2", 1) == "NeuronCore-v2"
    assert rank_of("trn2", 2) == "2 x NeuronCore-v3"


def rows(time_s):
    return [
        {
            "rank": "NeuronCore-v2",
            "layer": signature(layer(LLAMA, GIVEN), GIVEN),
            "phase": "prefill",
            "points": [[1, 512, time_s]],
        }
    ]


def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_CACHE", "off")
    table._of_user.cache_clear()
    file = tmp_path / "table.json"
    write(file, rows(7e-4))
    found = read(file, "NeuronCore-v2")
    assert found.at(layer(LLAMA, GIVEN), GIVEN) == (7e-4, cache.version())
    assert read(file, "NeuronCore-v3") == Table("NeuronCore-v3", {})
    assert read(tmp_path / "none.json", "NeuronCore-v2").curves == {}


def test_what_the_user_compiled_is_kept_and_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_CACHE", str(tmp_path))
    table._of_user.cache_clear()
    layer_sizes = signature(layer(LLAMA, GIVEN), GIVEN)
    for time_s in (1e-3, 2e-3):
        keep("NeuronCore-v2", layer_sizes, Phase.PREFILL, Point(1, 512, time_s))
    keep("NeuronCore-v2", layer_sizes, Phase.PREFILL, Point(1, 1024, 5e-3))
    file = tmp_path / "table.json"
    write(file, rows(7e-4))
    found = read(file, "NeuronCore-v2")
    assert found.at(layer(LLAMA, GIVEN), GIVEN) == (2e-3, cache.version())
    longer = Pass(Phase.PREFILL, 1, 1024)
    assert found.at(layer(LLAMA, longer), longer) == (5e-3, cache.version())
    table._of_user.cache_clear()


def test_the_packaged_table_rises_and_says_what_made_it():
    found = json.loads(table.PACKAGED.read_text(encoding="utf-8"))
    assert found["version"]
    for row in found["layers"]:
        times = Curve(tuple(Point(*point) for point in row["points"]))
        for batch, length, time_s in row["points"]:
            assert times.at(batch, length) >= time_s
            assert 1e-6 < time_s < 10


def test_a_time_of_other_sources_is_said_to_be():
    assert table.told(cache.version()) == "compiled layer"
    assert "other sources than today's: 0123" in table.told("0123")
