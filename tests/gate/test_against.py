import subprocess
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.gate.against import earlier_baselines
from trnsim.gate.baselines import Key

KERNEL = """import nki, nki.isa as nisa, nki.language as nl
import numpy as np
from shared import COLUMNS

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out

kernel_inputs = np.ones((128, COLUMNS), np.float32)
"""


def git(*arguments, folder):
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    command = ["git", *name, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose kernels lie in a folder of it, which is the working one."""
    folder = tmp_path / "ops"
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "shared.py").write_text("COLUMNS = 2048\n")
    git("init", "-q", folder=tmp_path)
    git("add", ".", folder=tmp_path)
    git("commit", "-qm", "one", folder=tmp_path)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
def test_the_times_of_a_revision_are_those_of_its_files(repository):
    (repository / "shared.py").write_text("COLUMNS = 64\n")
    (repository / "new.py").write_text(KERNEL)
    baselines = earlier_baselines("HEAD", [Path("kernel.py"), Path("new.py")], ["trn2", "trn3"])
    assert set(baselines.times) == {Key("kernel.py", "kernel", chip) for chip in ("trn2", "trn3")}
    assert str(baselines.path) == "revision HEAD"
    time = baselines.times[Key("kernel.py", "kernel", "trn2")]
    assert time.inputs == "float32[128,2048]"


@pytest.mark.slow
def test_of_several_kernels_the_named_one_alone_has_a_time(repository):
    (repository / "two.py").write_text(f"{KERNEL}\nother, other_inputs = kernel, kernel_inputs\n")
    git("add", ".", folder=repository)
    git("commit", "-qm", "two", folder=repository)
    baselines = earlier_baselines("HEAD", [Path("two.py")], ["trn2"], "other")
    assert set(baselines.times) == {Key("two.py", "other", "trn2")}


@pytest.mark.slow
def test_links_out_of_the_repository_are_left_out(repository):
    (repository / "data").symlink_to("/usr/share")
    git("add", ".", folder=repository)
    git("commit", "-qm", "link", folder=repository)
    baselines = earlier_baselines("HEAD", [Path("kernel.py")], ["trn2"])
    assert set(baselines.times) == {Key("kernel.py", "kernel", "trn2")}


def test_a_revision_that_is_not_there_is_refused(repository):
    with pytest.raises(BadInput, match="--against: no revision mainn") as refused:
        earlier_baselines("mainn", [repository / "kernel.py"], ["trn2"])
    assert "git fetch" in refused.value.fix
    with pytest.raises(BadInput, match="--against: "):
        earlier_baselines("--help", [repository / "kernel.py"], ["trn2"])


def test_no_repository_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(BadInput, match=r"--against: .*not a git repository"):
        earlier_baselines("HEAD", [tmp_path / "k.py"], ["trn2"])


def test_a_file_elsewhere_is_refused(repository, tmp_path):
    with pytest.raises(BadInput, match="lies outside of the folder"):
        earlier_baselines("HEAD", [tmp_path / "k.py"], ["trn2"])
    assert repository.is_dir()


def test_git_that_is_not_installed_is_told(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(BadInput, match="--against needs git, which is not installed"):
        earlier_baselines("HEAD", [repository / "kernel.py"], ["trn2"])
