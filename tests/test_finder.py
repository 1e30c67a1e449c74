"""The finder of last resort, each time in a fresh Python as a user starts it."""

import importlib.util
import subprocess
import sys

import pytest

import _trnsim_finder


def python(program, *, path=None, isolated=False):
    """What `program` prints; `path` comes first on sys.path."""
    if path is not None:
        program = f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"
    command = [sys.executable, *(["-I"] if isolated else []), "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_nki_gives_the_very_module():
    assert (
        python(
            "import nki, nki.language as nl, nki.isa, trnsim.nki, trnsim.nki.language\n"
            "print(nki is trnsim.nki, nki.language is trnsim.nki.language, nl is nki.language,\n"
            "      nki.isa is trnsim.nki.isa, nki.NkiTensor is trnsim.nki.tensor.NkiTensor)"
        )
        == ["True"] * 5
    )


@pytest.mark.slow
def test_whichever_name_comes_first_no_class_exists_twice():
    for first, second in (("nki.tensor", "trnsim.nki.tensor"), ("trnsim.nki.tensor", "nki.tensor")):
        assert python(
            f"import {first}, {second}, sys\n"
            "one, two = (sys.modules[n].NkiTensor for n in ('nki.tensor', 'trnsim.nki.tensor'))\n"
            "print(one is two, one.__module__)"
        ) == ["True", "trnsim.nki.tensor"]


@pytest.mark.parametrize(
    "statement", ["from nki import language as nl", "import nki.language as nl"]
)
def test_every_spelling_of_an_import_works(statement):
    assert python(f"{statement}; print(nl.__name__)") == ["trnsim.nki.language"]


def test_find_spec_answers_before_and_after_the_import():
    assert python(
        "from importlib.util import find_spec\n"
        "print(find_spec('nki').name, 'trnsim' in __import__('sys').modules)\n"
        "import nki\n"
        "print(find_spec('nki') is not None, find_spec('nki.language') is not None)\n"
        "print(nki.__spec__.name, nki.__name__)"
    ) == ["nki", "False", "True", "True", "trnsim.nki", "trnsim.nki"]


def test_folders_of_trnsims_own_are_no_part_of_the_package():
    assert python(
        "import sys, nki\n"
        "for name in ('aliases', 'migrate'):\n"
        "    try:\n"
        "        __import__('nki.' + name)\n"
        "    except ImportError as error:\n"
        "        print(error.name, f'trnsim.nki.{name}' in sys.modules)"
    ) == ["nki.aliases", "False", "nki.migrate", "False"]


def test_a_module_that_neither_has_is_not_found():
    assert python(
        "import nki\n"
        "try: import nki.nothing\n"
        "except ModuleNotFoundError as error: print(error.name)"
    ) == ["nki.nothing"]


def test_a_real_package_of_that_name_wins(tmp_path):
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "__init__.py").write_text("whose = 'real'\n")
    (tmp_path / "nki" / "language.py").write_text("whose = 'real too'\n")
    assert python(
        "import nki, nki.language, trnsim.nki\n"
        "print(nki.whose, nki.language.whose, trnsim.nki.language is nki.language)",
        path=tmp_path,
    ) == ["real", "real", "too", "False"]


def test_there_is_one_finder_however_often_it_is_installed():
    assert python(
        "import sys, _trnsim_finder\n"
        "_trnsim_finder.install()\n"
        "print([type(f).__name__ for f in sys.meta_path].count('LastResortFinder'))"
    ) == ["1"]


def test_a_folder_that_happens_to_be_called_nki_hides_nothing(tmp_path):
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "notes.py").write_text("")
    assert python("import nki, nki.isa; print(nki.__name__)", path=tmp_path) == ["trnsim.nki"]


def test_starting_python_imports_nothing_of_trnsim_but_the_finder():
    assert python(
        "import sys\n"
        "loaded = {m.partition('.')[0] for m in sys.modules}\n"
        "print('_trnsim_finder' in loaded, *(loaded & {'trnsim', 'numpy', 'ml_dtypes', 'torch'}))"
    ) == ["True"]


def test_other_names_are_not_answered():
    finder = _trnsim_finder.LastResortFinder()
    for name in ("nki.language", "nkx", "torch", "neuronx"):
        assert finder.find_spec(name) is None
    assert all(finder.find_spec(name).name == name for name in _trnsim_finder.ALIASES)


@pytest.mark.parametrize(("alias", "target"), _trnsim_finder.ALIASES.items())
def test_every_alias_names_a_module_that_exists(alias, target):
    assert importlib.util.find_spec(alias) is not None
    assert importlib.util.find_spec(target) is not None


def test_processes_of_jax_are_watched_for_where_awss_variables_name_them(monkeypatch):
    counted = "import sys; print(*(type(one).__name__ for one in sys.meta_path[:2]))"
    monkeypatch.delenv(_trnsim_finder.PROCESSES, raising=False)
    assert python(counted)[0] == "LastResortFinder"
    monkeypatch.setenv(_trnsim_finder.PROCESSES, "1,1")
    assert python(counted) == ["ClusterFinder", "LastResortFinder"]


def test_a_module_that_is_followed_is_otherwise_as_it_was(tmp_path, monkeypatch):
    package = tmp_path / "jax" / "_src" / "clusters"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "__init__.py").write_text("class ClusterEnv: _cluster_types = ['own']\n")
    (package / "below.py").write_text("word = 'below'\n")
    monkeypatch.setenv(_trnsim_finder.PROCESSES, "1,1")
    program = (
        "import jax._src.clusters as found, jax._src.clusters.below as below, inspect, sys\n"
        "print(found.ClusterEnv._cluster_types, below.word, 'trnsim.jax.cluster' in sys.modules,\n"
        "      'ClusterEnv' in inspect.getsource(found), 'numpy' in sys.modules)"
    )
    assert python(program, path=tmp_path) == ["['own']", "below", "True", "True", "False"]
    assert python("import json, email.message; print('others')") == ["others"]


PROBES = """
import importlib.metadata
import importlib.util

def spec():
    return importlib.util.find_spec("torch_xla") is not None

def version():
    try:
        return importlib.metadata.version("torch-xla")
    except importlib.metadata.PackageNotFoundError:
        return "none"

def imported():
    try:
        import torch_xla.core.xla_model
    except ImportError:
        return False
    return True
"""


@pytest.fixture
def library(tmp_path):
    """A folder of installed packages with one that looks for XLA as accelerate and transformers."""
    folder = tmp_path / "lib" / "site-packages"
    for name in ("client", "neuronx_client"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(PROBES)
    return folder


def test_a_librarys_probe_does_not_wake_torch_xla(library):
    assert python(
        "import client, sys\n"
        "print(client.spec(), client.imported(), 'trnsim' in sys.modules)\n"
        "from importlib.util import find_spec\n"
        "print(find_spec('torch_xla') is not None)",
        path=library,
    ) == ["False", "False", "False", "True"]


def test_libraries_find_torch_xla_where_the_runtime_is_neurons(library, monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert python("import client; print(client.spec())", path=library) == ["False"]
    monkeypatch.setenv("PJRT_DEVICE", "NEURON")
    assert python("import client; print(client.spec())", path=library) == ["True"]


def test_libraries_of_neuron_find_torch_xla(library):
    assert python("import neuronx_client; print(neuronx_client.spec())", path=library) == ["True"]


def test_a_real_torch_xla_wins_for_everybody(library):
    (library / "torch_xla").mkdir()
    (library / "torch_xla" / "__init__.py").write_text("whose = 'real'\n")
    assert python(
        "import client, torch_xla; print(client.spec(), torch_xla.whose)", path=library
    ) == ["True", "real"]


@pytest.mark.slow
def test_once_a_program_has_torch_xla_its_libraries_have_it(library):
    assert python(
        "import torch_xla, torch_xla.core.xla_model as xm, client\n"
        "print(client.spec(), client.imported(), torch_xla.core.xla_model is xm)\n"
        "print(torch_xla.device())",
        path=library,
    ) == ["True", "True", "True", "xla:0"]


@pytest.mark.slow
def test_without_torch_xla_the_device_is_neuron(library):
    assert python(
        "import client; client.imported()\n"
        "import torch; print(torch.ones(1, device='neuron').device, hasattr(torch, 'xla'))",
        path=library,
    ) == ["neuron:0", "False"]


def test_the_distribution_of_torch_xla_is_there_where_its_module_is(library, monkeypatch):
    """transformers 4 wants both."""
    asked = "import client; print(client.version())"
    assert python(asked, path=library) == ["none"]
    own = "import importlib.metadata as m; print(m.version('torch_xla'), m.requires('torch_xla'))"
    assert python(own, path=library) == ["2.9.0", "None"]
    monkeypatch.setenv("PJRT_DEVICE", "NEURON")
    assert python(asked, path=library) == ["2.9.0"]


@pytest.mark.slow
def test_the_distribution_of_torch_xla_has_the_version_of_its_module(library):
    asked = "import client, torch_xla; print(client.version() == torch_xla.__version__)"
    assert python(asked, path=library) == ["True"]


def test_a_real_distribution_of_torch_xla_wins(library, monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "NEURON")
    (library / "torch_xla-1.0.dist-info").mkdir()
    (library / "torch_xla-1.0.dist-info" / "METADATA").write_text("Name: torch_xla\nVersion: 1.0\n")
    assert python(
        "import client, importlib.metadata as m\n"
        "print(client.version(), *{each.name for each in m.distributions(name='torch_xla')})",
        path=library,
    ) == ["1.0", "torch_xla"]


def test_a_list_of_all_distributions_has_no_alias():
    assert python(
        "import importlib.metadata as m\n"
        "print({'torch_xla', 'torch-xla'} & {each.name for each in m.distributions()})"
    ) == ["set()"]


def test_a_finder_of_distributions_alone_is_passed_over(monkeypatch):
    finder = _trnsim_finder.LastResortFinder()
    monkeypatch.setattr(sys, "meta_path", [object(), finder])
    assert finder.find_spec("nki").name == "nki"
