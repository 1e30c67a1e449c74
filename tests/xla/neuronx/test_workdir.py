import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.trace import trace
from trnsim.xla.neuronx.workdir import PROGRAM, check_workdir


@pytest.mark.slow
def test_a_folder_has_the_report_and_the_program_in_place_of_a_neff(tmp_path):
    folder = tmp_path / "new" / "work"
    trace(torch.nn.Linear(4, 3), torch.ones(2, 4), compiler_workdir=str(folder))
    assert {path.name for path in folder.iterdir()} == {
        *(PROGRAM, "Linear.txt", "Linear.html", "Linear.json"),
    }
    content = (folder / PROGRAM).read_bytes()
    assert content.startswith(b"trnsim traced program\n")
    assert StoredProgram.from_bytes(content).title == "Linear"
    assert "Linear on trn2" in (folder / "Linear.txt").read_text()


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, match in (
        (tmp_path / "file" / "in", "is a file"),
        (5, "compiler_workdir=5; legal"),
    ):
        with pytest.raises(BadInput, match=match) as refused:
            trace(None, None, compiler_workdir=folder)
        assert refused.value.line.file == __file__
    assert check_workdir(str(tmp_path / "new")) == tmp_path / "new"
    assert not (tmp_path / "new").exists()
