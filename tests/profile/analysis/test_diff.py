"""Two profiles compared: v1 of a kernel with v2."""

import pytest

from trnsim.errors import SourceLine
from trnsim.profile import compare
from trnsim.profile.analysis.data import profile_data
from trnsim.profile.analysis.diff import Change
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
    assert all(change.is_same for change in (*found.whole, *found.engines, *found.lines))
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
    dma = by_name(found.engines)["DMA"]
    assert dma.note == "8 instructions -> 2 instructions"
    assert by_name(found.opcodes)["tensor_copy, Vector Engine"].note == "4 -> 1"


def test_lines_are_matched_by_their_text_wherever_they_moved(versions):
    before, after = versions
    moved = [{**line, "line": line["line"] + 40} for line in after["lines"]]
    found = compare(before, {**after, "lines": moved})
    assert all(change.before is not None and change.after is not None for change in found.lines)
    assert len(found.lines) == 3
    verdict = found.verdict()
    assert "times as fast; most at conftest.py:" in verdict
    assert "waiting" in verdict


def test_a_line_that_is_new_or_gone_says_so(new_kernel, ran):
    plain = profile(new_kernel(), ran, [64])
    kernel = new_kernel()
    tile = kernel.load(128, 64)
    kernel.matmul(tile, tile)
    found = by_name(compare(plain, profile(kernel, ran, [64])).opcodes)
    assert found["nc_matmul, Tensor Engine"].text == "new"
    lines = [c.text for c in compare(profile_data(ran(kernel.timeline())), plain).lines]
    assert "gone" in lines


def test_a_file_that_cannot_be_read_matches_by_number(new_kernel, ran):
    kernel = new_kernel()
    kernel.store(kernel.load(128, 64))
    timeline = kernel.timeline()
    timeline.program.lines[:] = [SourceLine("/gone/kernel.py", 7), SourceLine("/gone/kernel.py", 9)]
    data = profile_data(ran(timeline))
    assert {change.name for change in compare(data, data).lines} == {"kernel.py:7", "kernel.py:9"}


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
