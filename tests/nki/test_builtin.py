"""`nki.builtin`: what AWS's parser gives kernels as builtins is Python's own here."""

import types

import nki.builtin


def test_it_imports_and_adds_nothing_to_python():
    assert isinstance(nki.builtin, types.ModuleType)
    assert [name for name in vars(nki.builtin) if not name.startswith("__")] == []
    assert "Python's own" in nki.builtin.__doc__
