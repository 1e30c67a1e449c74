import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics
from trnsim.errors import BadInput
from trnsim.torch.dispatch.packed import PackedPiece, Window, pieces, uniform_lengths


@pytest.mark.parametrize(
    ("window", "sides", "expected"),
    [
        (Window(), (3, 2), 0),
        (Window(right=0), (3, 2), 1),
        (Window(right=0), (2, 3), 0),
        (Window(right=1), (4, 1), 2),
        (Window(right=0, is_from_start=True), (3, 2), 0),
        (Window(), (3, 0), 3),
        (Window(right=0), (2, 0), 2),
    ],
)
def test_first_queries_without_a_key_are_counted(window, sides, expected):
    assert window.hidden_queries(*sides) == expected


def test_minus_one_says_all_and_causal_hides_what_is_later():
    assert Window.of(-1, -1, is_causal=False) == Window.of(None, None, is_causal=False) == Window()
    assert Window.of(2, 5, is_causal=True) == Window(left=2, right=0)
    assert Window(right=0).is_causal(3, 3)
    assert Window(left=2, right=0).is_causal(3, 3), "so few keys are all in the window"
    assert not Window(left=1, right=0).is_causal(3, 3)
    assert not Window(right=0).is_causal(3, 4), "the last ones stand opposite each other"
    assert Window(right=0, is_from_start=True).is_causal(3, 4)


def test_a_window_is_a_bias_of_zeros_and_minus_infinity():
    assert Window().bias(3, 3, 0) is None
    seen = Window(left=1, right=0).bias(3, 4, 0) == 0
    assert seen.tolist() == [
        [True, True, False, False],
        [False, True, True, False],
        [False, False, True, True],
    ]
    assert (Window(right=0).bias(3, 2, 1) == 0).tolist() == [[True, False], [True, True]]


def starts(*places):
    return torch.tensor(places, dtype=torch.int32)


def test_sequences_lie_between_the_places_where_they_begin():
    found = pieces(starts(0, 2, 5), starts(0, 4, 4), (5, 4), None)
    assert found == [PackedPiece(slice(0, 2), slice(0, 4)), PackedPiece(slice(2, 5), slice(4, 4))]
    found = pieces(starts(0, 1, 2), starts(0, 4, 8), (2, 8), starts(3, 1))
    assert [one.keys for one in found] == [slice(0, 3), slice(4, 5)]


def test_equal_sequences_are_a_batch():
    found = pieces(starts(0, 2, 4), starts(0, 3, 6), (4, 6), None)
    assert uniform_lengths(found) == (2, 2, 3)
    assert uniform_lengths(pieces(starts(0, 2, 5), starts(0, 2, 5), (5, 5), None)) is None
    assert uniform_lengths(pieces(starts(0, 1), starts(0, 0), (1, 0), None)) is None
    used = pieces(starts(0, 1, 2), starts(0, 4, 8), (2, 8), starts(3, 3))
    assert uniform_lengths(used) is None, "keys between them are left out"


def test_without_values_sequences_have_equal_shares():
    with numerics("shapes"):
        found = pieces(torch.full((3,), 7), torch.full((3,), -1), (8, 6), torch.ones(2))
    assert uniform_lengths(found) == (2, 4, 3)


@pytest.mark.parametrize("used", [(3,), (3, 1, 1), (5, 1), (-1, 1)])
def test_used_keys_are_counted_for_each_sequence_and_are_its_own(used):
    with pytest.raises(BadInput) as caught:
        pieces(starts(0, 1, 2), starts(0, 4, 8), (2, 8), starts(*used))
    assert f"seqused_k {list(used)} for sequences of [4, 4] keys; legal:" in str(caught.value)


@pytest.mark.parametrize("given", [(0, 3, 2), (0, 2, 6), (-1, 2, 5), ()])
def test_places_beyond_the_end_or_backwards_are_refused(given):
    with pytest.raises(BadInput) as caught:
        pieces(starts(*given), starts(0, 2, 5), (5, 5), None)
    assert str(caught.value).startswith(
        f"sequences of queries begin at {list(given)}; legal: growing places from 0 to 5\n"
        "  fix: torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()"
    )


def test_as_many_sequences_of_keys_as_of_queries():
    with pytest.raises(BadInput, match="2 sequences of queries and 1 of keys"):
        pieces(starts(0, 2, 5), starts(0, 5), (5, 5), None)
