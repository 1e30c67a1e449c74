"""What results want of SBUF at once."""

from made_graphs import Made

from trnsim.compiler.schedules import SbufSchedule
from trnsim.lower.program import trace


def wanted_bytes(made, *outputs, schedule=None):
    made.graph.outputs = list(outputs)
    options = {} if schedule is None else {"schedule": schedule}
    found = trace(made.graph, made.arrays, "trn1", frozenset(), numerics=False, **options)
    return found.wanted_bytes


def test_what_is_yet_to_be_read_counts_once_for_all_its_views():
    made = Made()
    x = made.of("tanh", made.given(300, 128))
    turned = made.graph.reshape(made.graph.transpose(x, (1, 0)), (128, 3, 100))
    scores = made.graph.dot_general(x, x, (1, 1))
    total = made.graph.reduce("add", turned, [0, 1, 2])
    # x alone: 300 columns of 4 bytes, or 3 blocks of 128 of them.
    assert wanted_bytes(made, made.graph.reduce("add", scores, [0, 1]), total) >= 300 * 4


def test_what_has_no_room_counts_too():
    def sums(tokens):
        made = Made()
        x = made.of("tanh", made.given(tokens, 128))
        made.of("exponential", x)
        y = made.of("tanh", made.graph.dot_general(x, made.given(128, 128), (1, 0)))
        z = made.of("tanh", made.graph.dot_general(y, made.given(128, 128), (1, 0)))
        return made, made.of("add", made.of("add", x, y), z)

    kib = 1024
    crowded = SbufSchedule(191 * kib, 32 * kib)
    made, found = sums(512)
    roomy = wanted_bytes(made, found)
    made, found = sums(512)
    assert wanted_bytes(made, found, schedule=crowded) == roomy
    assert roomy >= 2 * 512 * 4
