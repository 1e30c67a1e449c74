"""Programs of a workload are scanned from the folder of its inventory."""

import pytest
from workload_cases import workload

from trnsim.decide.programs import findings
from trnsim.errors import BadInput, SourceLine


def given(folder, *names):
    return workload(
        sources=tuple(folder / name for name in names),
        line=SourceLine(str(folder / "inventory.csv"), 2),
    )


def test_without_sources_nothing_is_known(tmp_path):
    assert findings(given(tmp_path)) is None


def test_a_kernel_is_found_with_its_line(tmp_path):
    (tmp_path / "scan.cu").write_text("\n__global__ void scan(float* x) {}\n")
    (found,) = findings(given(tmp_path, "scan.cu"))
    assert (found.path, found.line, found.kind) == ("scan.cu", 2, "cuda")


def test_a_path_outside_the_inventorys_folder_is_refused(tmp_path):
    with pytest.raises(BadInput, match="leads out of"):
        findings(given(tmp_path, "../elsewhere.py"))
