from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from trnsim.facts import Evidence
from trnsim.lower.arena import ALIGNMENT_BYTES, Arena, Block, arena

SIZES = st.one_of(st.just(0), st.integers(1, 5000), st.integers(1, 4).map(lambda n: 512 * n))
BLOCKS = st.lists(
    st.builds(
        lambda nbytes, first, lived: Block(nbytes, first, first + lived),
        SIZES, st.integers(0, 12), st.integers(0, 6),
    ),
    max_size=24,
)  # fmt: skip


def lie_apart(one, other):
    (start, size), (begin, length) = one, other
    return start + size <= begin or begin + length <= start


@given(BLOCKS)
def test_no_two_tensors_that_live_at_once_overlap(blocks):
    found = arena(blocks)
    placed = list(zip(blocks, found.offsets_bytes, strict=True))
    for (one, start), (other, begin) in combinations(placed, 2):
        if one.first <= other.last and other.first <= one.last and one.nbytes and other.nbytes:
            assert lie_apart((start, one.nbytes), (begin, other.nbytes))


@given(BLOCKS, st.sampled_from([1, 64, 512, 4096]))
def test_every_offset_is_aligned_and_inside(blocks, alignment_bytes):
    found = arena(blocks, alignment_bytes)
    for block, offset in zip(blocks, found.offsets_bytes, strict=True):
        assert offset % alignment_bytes == 0
        assert 0 <= offset <= found.nbytes - block.nbytes


@given(BLOCKS)
def test_an_arena_is_no_smaller_than_what_lives_at_once_and_no_larger_than_all(blocks):
    found = arena(blocks, 1)
    at_once = [
        sum(block.nbytes for block in blocks if block.first <= kernel <= block.last)
        for kernel in range(20)
    ]
    assert found.least_bytes == max(at_once)
    assert found.least_bytes <= found.nbytes <= sum(block.nbytes for block in blocks)


def test_a_place_is_used_again_when_its_tensor_is_dead():
    chain = [Block(1024, place, place + 1) for place in range(6)]
    assert arena(chain) == Arena((0, 1024, 0, 1024, 0, 1024), 2048, 2048)


def test_a_tensor_takes_the_smallest_hole_that_has_room():
    blocks = [
        Block(4096, 0, 9),
        Block(3072, 0, 4),  # leaves a hole of 3072
        Block(2560, 0, 9),
        Block(2048, 0, 4),  # leaves a hole of 2048
        Block(1536, 0, 9),
        Block(1024, 5, 9),
    ]
    found = arena(blocks)
    assert found.offsets_bytes == (0, 4096, 7168, 9728, 11776, 9728)
    assert found.nbytes == found.least_bytes == 13312


def test_small_tensors_take_whole_steps():
    found = arena([Block(1, 0, 0), Block(1, 0, 0)])
    assert found == Arena((0, 512), 1024, 1024)


def test_an_arena_of_nothing_is_empty():
    assert arena([]) == Arena((), 0, 0)


def test_the_alignment_is_called_assumed():
    assert ALIGNMENT_BYTES.provenance.kind is Evidence.ASSUMED


def test_thousands_of_tensors_take_little_more_than_the_least():
    blocks = [
        Block(512 * (1 + place * 7919 % 97), place, place + 1 + place * 104729 % 40)
        for place in range(2000)
    ]
    found = arena(blocks)
    assert found.least_bytes <= found.nbytes <= 1.2 * found.least_bytes
