import pytest
from made_graphs import Made

SLICES = [
    ((3000, 48), (0, 0), (1, 2)),
    ((3001, 47), (0, 0), (1, 2)),  # the last run reaches beyond the tensor, the first begins it
    ((3001, 47), (0, 1), (1, 2)),
    ((90_000,), (2,), (3,)),
    ((5, 130, 7, 64), (0, 2, 0, 1), (2, 1, 1, 3)),
    ((7, 3, 8001), (0, 0, 5), (2, 1, 3)),
]


def every(made, shape, starts, steps):
    lengths = [len(range(*sides)) for sides in zip(starts, shape, steps, strict=True)]
    return made.graph.slice(made.given(*shape), starts, lengths, steps)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(("shape", "starts", "steps"), SLICES)
def test_every_so_many_elements_are_copied(dtype, shape, starts, steps):
    made = Made(dtype)
    made.check(every(made, shape, starts, steps), chip="trn2")


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_an_operand_has_every_second_element(chip):
    made = Made()
    found = every(made, (3001, 47), (0, 1), (1, 2))
    made.check(made.of("multiply", found, made.given(*found.shape)), chip=chip)


def test_elements_are_loaded_as_runs():
    made = Made("bfloat16")
    names = made.opcodes(every(made, (50_000, 48), (0, 0), (1, 2)))
    assert names.count("tensor_copy") == names.count("dma_copy") // 2
