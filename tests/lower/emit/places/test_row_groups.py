import pytest
from made_graphs import CHIPS, Made


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("rows", "width", "columns"), [(1024, 48, 64), (1100, 3, 7), (1027, 48, 1)]
)
def test_products_of_many_short_rows_are_those_of_the_reference(chip, rows, width, columns):
    made = Made("bfloat16")
    found = made.graph.dot_general(made.given(rows, width), made.given(columns, width), (1, 1))
    made.check(found, chip=chip)


@pytest.mark.parametrize("rows", [2048 + 64, 4096])
def test_rows_of_more_than_a_block_are_transposed(rows):
    made = Made()
    wide = made.of("exponential", made.given(rows, 130, scale=0.1))
    made.check(made.of("tanh", made.graph.dot_general(wide, made.given(5, 130), (1, 1))))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_columns_are_written_as_many_short_rows(dtype):
    made = Made(dtype)
    made.check(made.graph.transpose(made.of("tanh", made.given(48, 2100)), (1, 0)))


def test_rows_within_wider_rows_are_loaded_together():
    made = Made("bfloat16")
    part = made.graph.slice(made.given(1100, 52), (0, 3), (1100, 48))
    made.check(made.graph.dot_general(part, made.given(6, 48), (1, 1)))


def test_a_transfer_has_many_rows():
    made = Made("bfloat16")
    found = made.graph.dot_general(made.given(8192, 48), made.given(64, 48), (1, 1))
    # 8 rows of each of 128 partitions are loaded together, and at most 4 are stored.
    assert made.opcodes(found).count("dma_copy") < 8192 // 1024 + 8192 // 512 + 5
