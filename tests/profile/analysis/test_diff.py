"""Two profiles compared: v1 of a kernel with v2."""

import json

import pytest
from schema_checks import assert_both_ways

from trnsim.document.values import with_schema
from trnsim.errors import BadInput, SourceLine
from trnsim.profile import compare
from trnsim.profile.analysis.data import profile_data
from trnsim.profile.analysis.diff import (
    ENGINES,
    LINES,
    MODEL_ENGINES,
    MODULES,
    OPCODES,
    TRAFFIC,
    Change,
)
from trnsim.profile.analysis.model_estimate import ModelEstimate, Share
from trnsim.profile.measures.parts import PartCost
from trnsim.profile.units import time_text


def profile(kernel, ran, widths, **options):
    """A kernel that loads tiles of some widths and stores what it copied."""
    for width in widths:
        kernel.store(kernel.copy(kernel.load(128, width), **options))
    return profile_data(ran(kernel.timeline()))


@pytest.fixture
def versions(new_kernel, ran):
    """v1 in four small tiles, v2 in one large one."""
    return profile(new_kernel(), ran, [64] * 4), profile(new_kernel(), ran, [256])


def by_name(changes):
    return {change.name: change for change in changes}


def test_a_profile_does_not_differ_from_itself(versions):
    found = compare(versions[0], versions[0])
    assert all(
        change.is_same for change in (*found.whole, *found.tables[ENGINES], *found.tables[LINES])
    )
    assert found.verdict() == "verdict  as fast"
    assert "opcode" not in found.text()


def test_what_the_whole_program_does_is_compared(versions):
    whole = by_name(compare(*versions).whole)
    assert whole["DMA transfers"].before == 8
    assert whole["DMA transfers"].text == "-6 (-75 %)"
    assert whole["HBM read"].text == "="
    assert whole["estimated time"].difference < 0


def test_engines_and_opcodes_say_what_they_gained(versions):
    found = compare(*versions)
    dma = by_name(found.tables[ENGINES])["DMA"]
    assert dma.note == "8 instructions -> 2 instructions"
    assert by_name(found.tables[OPCODES])["tensor_copy, Vector Engine"].note == "4 -> 1"


def test_lines_are_matched_by_their_text_wherever_they_moved(versions):
    before, after = versions
    moved = [{**line, "line": line["line"] + 40} for line in after["lines"]]
    found = compare(before, {**after, "lines": moved})
    assert all(
        change.before is not None and change.after is not None for change in found.tables[LINES]
    )
    assert len(found.tables[LINES]) == 3
    verdict = found.verdict()
    assert "times as fast; most at conftest.py:" in verdict
    assert "waiting" in verdict


def test_a_line_that_is_new_or_gone_says_so(new_kernel, ran):
    plain = profile(new_kernel(), ran, [64])
    kernel = new_kernel()
    tile = kernel.load(128, 64)
    kernel.matmul(tile, tile)
    found = by_name(compare(plain, profile(kernel, ran, [64])).tables[OPCODES])
    assert found["nc_matmul, Tensor Engine"].text == "new"
    lines = [c.text for c in compare(profile_data(ran(kernel.timeline())), plain).tables[LINES]]
    assert "gone" in lines


def test_a_file_that_cannot_be_read_matches_by_number(new_kernel, ran):
    kernel = new_kernel()
    kernel.store(kernel.load(128, 64))
    timeline = kernel.timeline()
    timeline.program.lines[:] = [SourceLine("/gone/kernel.py", 7), SourceLine("/gone/kernel.py", 9)]
    data = profile_data(ran(timeline))
    assert {change.name for change in compare(data, data).tables[LINES]} == {
        "kernel.py:7",
        "kernel.py:9",
    }


def test_the_text_has_a_table_for_each_question(versions):
    text = compare(*versions).text()
    assert text.startswith("before   matmul on trn2\nafter    matmul on trn2\nverdict  ")
    for words in ("estimated time", "critical path waits", "HBM written", "bound by", "MFU"):
        assert words in text, words
    for head in ("engine, active", "opcode, busy", "line, on the critical path"):
        assert f"\n\n{head}" in text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (2e-6, 1e-6, "-1 us (-50 %)"),
        (1e-6, 1.0000001e-6, "="),
        (0.0, 1e-6, "+1 us"),
        (None, 1e-6, "new"),
        (1e-6, None, "gone"),
    ],
)
def test_a_change_reads_with_its_sign_and_share(before, after, text):
    assert Change("x", before, after, time_text).text == text


def model(kernel, ran, *shares, **changes):
    """A profile of a model, in which a module takes so many microseconds of an engine."""
    parts = [
        Share(module, "dot_general", 1, PartCost(4, {}, {engine: us * 1e-6}, {"weights": nbytes}))
        for module, engine, us, nbytes in shares
    ]
    device_s = sum(one.part.time_s for one in parts)
    facts = {"launch_s": 0.0, "exchanges_s": 0.0, "bound_s": 1e-6, "binds": "HBM", "flop": 1e9}
    facts |= {"hbm_bytes": 1e6, "mfu": 0.2, "mbu": 0.1, "programs": 1, "layers": 0, "compiled": 0}
    whole = ModelEstimate(device_time_s=device_s, shares=tuple(parts), **(facts | changes))
    return profile_data(ran(kernel.timeline())) | {"model": whole.as_data()}


def test_models_are_compared_by_module_engine_and_bytes(new_kernel, ran):
    before = model(new_kernel(), ran, ("net.up", "tensor", 6, 64), ("net.down", "dma", 4, 64))
    after = model(new_kernel(), ran, ("net.up", "tensor", 2, 32), ("net.side", "dma", 1, 64))
    found = compare(before, after)
    modules = by_name(found.tables[MODULES])
    assert set(modules) == {"net.up", "net.down", "net.side"}
    assert modules["net.up"].text == "-4 us (-67 %)"
    assert (modules["net.down"].text, modules["net.side"].text) == ("gone", "new")
    assert by_name(found.tables[MODEL_ENGINES])["DMA"].difference == pytest.approx(-3e-6)
    assert by_name(found.tables[TRAFFIC])["weights"].text == "-32 B (-25 %)"
    whole = by_name(found.whole)
    assert whole["estimated time"].text == "-7 us (-70 %)"
    assert (whole["times the bound"].before, whole["times the bound"].after) == (10.0, 3.0)
    assert found.verdict() == "verdict  3.33 times as fast; most at net.up: -4 us Tensor Engine"
    assert found.bound_by == ("Tensor Engine", "Tensor Engine")


def test_a_model_does_not_differ_from_itself(new_kernel, ran):
    one = model(new_kernel(), ran, ("", "dma", 1, 0), bound_s=0.0)
    found = compare(one, one)
    assert found.verdict() == "verdict  as fast"
    assert "module" not in found.text()
    assert by_name(found.whole)["times the bound"].before is None


def test_the_changes_as_json_have_all_that_the_text_has(new_kernel, ran):
    before = model(new_kernel(), ran, ("net.up", "tensor", 6, 64))
    after = model(new_kernel(), ran, ("net.up", "tensor", 2, 64), ("net.side", "dma", 1, 0))
    found = compare(before, after).as_dict()
    assert found["whole"][0] == {"name": "estimated time", "before": 6e-6, "after": 3e-6}
    rows = {row["name"]: row for row in found[MODULES]}
    assert rows["net.side"] == {"name": "net.side", "before": None, "after": 1e-6}
    assert found["verdict"].startswith("verdict  2.00 times as fast")
    assert json.loads(json.dumps(found)) == found


def test_a_kernel_and_a_model_have_nothing_to_compare(new_kernel, ran):
    kernel = profile(new_kernel(), ran, [64])
    whole = model(new_kernel(), ran, ("net", "dma", 1, 0))
    for pair in ((kernel, whole), (whole, kernel)):
        with pytest.raises(BadInput, match=r"is the report of a model and .* that of a kernel"):
            compare(*pair)


def work(kernel, ran, module, operation, engine, reason, bound_s):
    """A profile of a model of one operation."""
    part = PartCost(4, {engine: 1e-6}, {engine: 1e-6}, {reason: 64})
    facts = {"launch_s": 0.0, "exchanges_s": 0.0, "bound_s": bound_s, "binds": "HBM", "flop": 1e9}
    facts |= {"hbm_bytes": 1e6, "mfu": 0.2, "mbu": 0.1, "programs": 1, "layers": 0, "compiled": 0}
    whole = ModelEstimate(device_time_s=1e-6, shares=(Share(module, operation, 1, part),), **facts)
    return profile_data(ran(kernel.timeline())) | {"model": whole.as_data()}


def test_changes_of_kernels_and_models_are_those_of_the_schema(new_kernel, ran):
    copying, multiplying = new_kernel(), new_kernel()
    copying.store(copying.copy(copying.load(128, 64)))
    tile = multiplying.load(128, 64)
    multiplying.matmul(tile, tile)
    kernels = [profile_data(ran(kernel.timeline())) for kernel in (copying, multiplying)]
    models = [
        work(new_kernel(), ran, "up", "dot_general", "tensor", "weights", 0.0),
        work(new_kernel(), ran, "down", "gather", "dma", "outputs", 1e-6),
    ]
    values = [
        with_schema(compare(*pair).as_dict(), "profile-diff/1")
        for first, second in (kernels, models)
        for pair in ((first, second), (second, first))
    ]
    assert_both_ways(values, "profile-diff/1")
