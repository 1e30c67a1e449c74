"""What is read late leaves SBUF for what is read soon; values stay what they are."""

import pytest
from made_graphs import CHIPS, Made

from trnsim.lower.emit import residents
from trnsim.lower.emit.eviction import next_reader
from trnsim.lower.emit.graph_facts import GraphFacts


def kept_for_later(made, layers, rows=1536, width=512):
    """Layers whose results are all read at the end, the last one first, as a backward pass does."""
    x = made.given(rows, width)
    found = []
    for _ in range(layers):
        x = made.of("tanh", made.linear(x, width, has_bias=False))
        x = made.of("multiply", x, 1.5)
        found.append(x)
    y = x
    for one in reversed(found):
        product = made.linear(made.of("multiply", y, one), width, has_bias=False)
        y = made.of("add", product, one)
    return y, found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_that_go_and_come_back_are_right(dtype):
    made = Made(dtype)
    y, found = kept_for_later(made, 6)
    made.check(y, found[2], chip=CHIPS[len(dtype) % 4])


@pytest.mark.slow
def test_what_is_read_soon_stays_on_the_chip(monkeypatch):
    made = Made("float32")
    y, _ = kept_for_later(made, 8)
    ours = made.run(y, chip="trn1").timeline
    monkeypatch.setattr(residents, "evict", lambda *_: False)
    theirs = made.run(y, chip="trn1").timeline
    assert ours.device_time_s < theirs.device_time_s


@pytest.mark.slow
def test_an_output_that_leaves_is_returned_as_it_left():
    made = Made("float32")
    y, found = kept_for_later(made, 6)
    names = made.opcodes(y, *found, chip="trn1")
    made.check(y, *found, chip="trn1")
    assert "dma_copy" in names


class Passing(residents.Residents):
    """A program whose operations were all issued but for some that wait."""

    def __init__(self, graph):
        super().__init__(GraphFacts(graph), {}, lambda _: None, 0)

    def is_unread(self, value, known):
        del known
        return value.number not in self.places


class Done:
    is_pending = False


def test_the_next_reader_is_seen_through_views_and_what_waits():
    made = Made("float32")
    x = made.given(4, 6)
    near = made.graph.reduce("add", made.graph.reshape(x, (2, 2, 6)), [2])
    far = made.graph.reduce("add", made.of("negate", x), [1])
    passing = Passing(made.graph)
    assert next_reader(passing, x) == passing.facts.order[near.number]
    passing.places[near.number] = [Done]
    assert next_reader(passing, x) == passing.facts.order[far.number]


def test_what_waits_for_results_comes_after_all_others_in_its_order():
    made = Made("float32")
    x, y = made.given(4, 6), made.given(4, 6)
    first, second = made.of("negate", x), made.of("negate", y)
    passing = Passing(made.graph)
    last = len(made.graph.nodes)
    assert last <= next_reader(passing, x) < next_reader(passing, y) < next_reader(passing, second)
    del first
