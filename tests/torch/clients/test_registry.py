"""Every plugin: what it says of itself, and that it fits the release that is installed."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import forked

from trnsim.torch.clients import plugin
from trnsim.torch.clients.registry import PLUGINS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "src" / "trnsim" / "torch" / "clients"
MECHANISM = {"__init__", "imports", "plugin", "registry"}
each_plugin = pytest.mark.parametrize("one", PLUGINS, ids=lambda one: one.package)


def test_every_file_of_the_folder_is_a_plugin_that_is_registered():
    files = {path.stem for path in FOLDER.glob("*.py")} - MECHANISM
    assert {one.apply.__module__.rpartition(".")[2] for one in PLUGINS} == files


@each_plugin
def test_a_plugin_says_what_it_patches_and_why(one):
    assert one.module.replace("_", "-").startswith(one.package.replace("_", "-"))
    assert one.replaced_names
    assert one.reason
    assert one.reason[0].islower()
    assert not one.reason.endswith(".")
    assert re.match(r"\w+ \d+\.\d+\.\d+ .*\.py", one.source)


@each_plugin
def test_a_plugin_is_tested_with_the_release_that_the_tests_of_clients_install(one):
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
    )
    assert any(f"{pins[one.package]}.".startswith(f"{known}.") for known in one.tested_releases)


@each_plugin
def test_every_plugin_leaves_an_unknown_package_alone(one):
    module = type(sys)(one.module)
    with pytest.warns(UserWarning, match="is left as it is") as warned:
        one.patch(module)
    assert set(vars(module)) == set(vars(type(sys)(one.module)))
    assert one.package in str(warned[0].message)
    assert one.reason in str(warned[0].message)


@each_plugin
def test_every_plugin_fits_the_installed_release_without_a_warning(one):
    if importlib.util.find_spec(one.module.partition(".")[0]) is None:
        pytest.skip(f"make clients installs {one.package}")
    program = (
        "import warnings; warnings.filterwarnings('error', message='trnsim')\n"
        f"import torch, importlib; module = importlib.import_module({one.module!r})\n"
        "from functools import reduce\n"
        f"for name in {one.replaced_names!r}:\n"
        "    found = reduce(getattr, name.split('.'), module)\n"
        "    print(found.__module__, getattr(found, '__wrapped__', found) is not found)\n"
    )
    done = forked.python(program, check=True)
    for line in done.stdout.splitlines():
        module, is_wrapped = line.split()
        assert module.startswith("trnsim.") or is_wrapped == "True"


def test_plugins_share_one_interface():
    assert all(type(one) is plugin.Plugin for one in PLUGINS)
