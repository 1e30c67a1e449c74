"""Exported programs: every operator that they call, by the compiler's own lowerings."""

import pytest

from trnsim.decide.scan import exports, scan

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")


class Values(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(torch.relu(x * 2))


def saved(model, path, **options):
    torch.export.save(torch.export.export(model.eval(), (torch.randn(4, 4),), **options), path)
    return path


def test_an_operator_without_a_lowering_is_found_at_the_line_that_calls_it(tmp_path):
    saved(Values(), tmp_path / "values.pt2")
    found = scan([tmp_path], tmp_path)
    (place,) = found.places
    assert (place.file, place.line) == (__file__, Values.forward.__code__.co_firstlineno + 1)
    assert (place.kind, place.what, place.effort) == ("operator", "aten::_linalg_svd", "M")
    assert (found.unlowered, found.frameworks) == (1, ("pytorch",))
    assert found.lowered >= 2


def test_a_program_whose_operators_are_all_lowered_has_no_findings(tmp_path):
    saved(torch.nn.Linear(4, 4), tmp_path / "linear.pt2")
    found = scan([tmp_path], tmp_path)
    assert (found.places, found.unlowered) == ((), 0)


@pytest.mark.slow
def test_sizes_that_change_are_a_finding(tmp_path):
    length = torch.export.Dim("length", min=2, max=64)
    saved(torch.nn.Linear(4, 4), tmp_path / "a.pt2", dynamic_shapes=({0: length},))
    (place,) = scan([tmp_path], tmp_path).places
    assert (place.kind, place.effort) == ("operator", "M")
    assert place.advice


def test_what_is_no_export_is_a_finding(tmp_path):
    (tmp_path / "a.pt2").write_bytes(b"PK and nothing more")
    (place,) = scan([tmp_path], tmp_path).places
    assert place.kind == "unreadable"
    assert "a.pt2 is no exported program" in place.what


def test_without_pytorch_an_export_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "a.pt2").write_bytes(b"")
    monkeypatch.setattr(exports, "find_spec", lambda _: None)
    (place,) = scan([tmp_path], tmp_path).places
    assert place.what == "reading it needs PyTorch: pip install 'trnsim[torch]'"
