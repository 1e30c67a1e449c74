import numpy as np

from trnsim.memory import AccessPattern, Tile
from trnsim.profile.analysis.examination import Examination


def test_the_unchanged_program_takes_as_long_as_before(timeline):
    examined = Examination(timeline)
    assert examined.time_after_s({}) == timeline.device_time_s == examined.base_time_s


def test_placements_of_single_instructions_come_first(timeline):
    examined = Examination(timeline)
    slow = dict(enumerate(examined.recorded_placements))
    own = {i: examined.recorded_placements[which] for i, which in enumerate(timeline.program.which)}
    slow[0] = slow[0]._replace(cost=examined.recorded_placements[-1].cost)
    assert examined.time_after_s(slow, own) == timeline.device_time_s


def test_instructions_that_differ_in_offsets_alone_are_alike(kernel):
    tile = kernel.load(128, 512)
    row_bytes, step_bytes = tile.pattern.strides_bytes
    for start in (0, 128, 256):
        part = AccessPattern((128, 128), (row_bytes, step_bytes), start * step_bytes)
        kernel.copy(Tile(tile.storage, tile.dtype, part))
    kernel.copy(tile)
    examined = Examination(kernel.timeline())
    issued = sorted(examined.issued_indices(kinds).tolist() for kinds in examined.same_shape_groups)
    assert issued == [[0], [1, 2, 3], [4]]


def test_the_costliest_line_is_the_one_that_takes_longest_latency_included(timeline):
    examined = Examination(timeline)
    spans = list(timeline.spans())
    longest = {}
    for span in spans:
        longest[span.line] = longest.get(span.line, 0) + span.end_s - span.start_s
    line = examined.costliest_line(np.arange(len(spans)))
    assert longest[line] == max(longest.values())
