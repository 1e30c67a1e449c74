from trnsim.estimate.cells import CELLS, Family, family_of, rows_text
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Phase


def test_no_cell_is_told_twice_and_each_has_rows():
    names = [(cell.kind, cell.phase, cell.chip, cell.is_ported) for cell in CELLS]
    assert len(names) == len(set(names))
    assert all(cell.rows and cell.median <= cell.p90 for cell in CELLS)


def test_a_phase_has_its_family_and_a_gpu_its_own():
    assert family_of(ModelKind.EXPERTS, Phase.DECODE, is_gpu=False) is Family.DECODE
    assert family_of(ModelKind.PAIR, Phase.ENCODE, is_gpu=False) is Family.PAIRS
    assert family_of(ModelKind.VISION, Phase.ENCODE, is_gpu=False) is Family.ENCODERS
    assert family_of(ModelKind.DENSE, Phase.TRAIN, is_gpu=True) is Family.GPU_TRAINING
    ported = family_of(ModelKind.EXPERTS, Phase.DECODE, is_gpu=False, is_ported=True)
    assert ported is Family.PORTS
    assert family_of(ModelKind.DENSE, Phase.DECODE, is_gpu=True) is Family.GPU_DECODE


def test_a_cell_is_told_with_its_rows_and_errors():
    cell = next(cell for cell in CELLS if cell.kind is ModelKind.VISION)
    assert str(cell) == (
        "1 published row of vision encode on inferentia2 (errors 18.1% in the median, 18.1% at P90)"
    )
    assert rows_text(2) == "2 published rows"
