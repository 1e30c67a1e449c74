import sys
from importlib.util import spec_from_file_location

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.clients.imports import when_imported


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of the name that is given, with a module `place` inside it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    (tmp_path / "a_client").mkdir()
    (tmp_path / "a_client" / "__init__.py").touch()
    (tmp_path / "a_client" / "place.py").write_text("KNOWN = ['cpu']\n")
    yield
    for name in ("a_client", "a_client.place"):
        sys.modules.pop(name, None)


def patch(module):
    module.KNOWN = [*module.KNOWN, "neuron"]


@pytest.mark.usefixtures("package")
def test_a_package_is_served_before_anybody_takes_names_from_it():
    when_imported("a_client.place", patch)
    from a_client.place import KNOWN  # noqa: PLC0415  the import is what is tested

    assert KNOWN == ["cpu", "neuron"]


@pytest.mark.usefixtures("package")
def test_a_package_that_was_imported_before_is_served_at_once():
    import a_client.place  # noqa: PLC0415  the import is what is tested

    when_imported("a_client.place", patch)
    assert a_client.place.KNOWN == ["cpu", "neuron"]


@pytest.mark.usefixtures("package")
def test_a_package_that_is_not_there_is_missing_as_before():
    when_imported("no_such_client", patch)
    with pytest.raises(ModuleNotFoundError, match="no_such_client"):
        __import__("no_such_client")


@pytest.mark.usefixtures("package")
def test_a_package_that_is_installed_in_place_is_served(monkeypatch, tmp_path):
    class Finder:
        """Finds the package in a folder that is not on the path, as pip's finder does."""

        def find_spec(self, name, *_):
            file = tmp_path / "elsewhere" / "in_place.py"
            return spec_from_file_location(name, file) if name == "in_place" else None

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "in_place.py").write_text("KNOWN = ['cpu']\n")
    sys.meta_path.append(Finder())
    when_imported("in_place", patch)
    assert __import__("in_place").KNOWN == ["cpu", "neuron"]
    monkeypatch.delitem(sys.modules, "in_place")
