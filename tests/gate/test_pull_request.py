"""The comment of a pull request, by itself and by the shell steps of the action and of GitLab."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import trnsim
from trnsim.gate.pull_request import MARK, comment, main

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
KERNELS = Path(__file__).parent / "project" / "kernels.py"
DECLARED = """
import numpy as np


def softmax_inputs():
    return (np.ones((1024, 2048), np.float32),)
"""
PLACE = "        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)\n"
COPY = "        nisa.tensor_copy(dst=weights[:, :960], src=tile[:, :960])\n"
BASH = shutil.which("bash")
FAKE_GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$*" in *--paginate*) cat "$KNOWN";; esac
"""
FAKE_CURL = """#!/bin/sh
printf '%s\\n' "$*" >> "$LOG"
case "$*" in *per_page*) cat "$KNOWN";; esac
"""
FAKE_PYTHON = """#!/bin/sh
case "$*" in "-m pip"*) printf '%s\\n' "$*" >> "$LOG";; *) exec {} "$@";; esac
"""


def git(*words, folder):
    settings = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", *settings, *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose working tree has a slower kernel and a job of more nodes."""
    folder = tmp_path / "repository"
    folder.mkdir()
    kernels = KERNELS.read_text() + DECLARED
    (folder / "kernels.py").write_text(kernels)
    job = (ROOT / "examples" / "jobs" / "train.sbatch").read_text()
    (folder / "train.sbatch").write_text(job)
    git("init", "-q", folder=folder)
    git("add", ".", folder=folder)
    git("commit", "-qm", "base", folder=folder)
    (folder / "kernels.py").write_text(kernels.replace(PLACE, PLACE + COPY))
    changed = re.sub(r"--nodes=(\d+)", lambda m: f"--nodes={2 * int(m[1])}", job)
    assert changed != job
    (folder / "train.sbatch").write_text(changed)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(trnsim.__file__).parents[1]))
    return folder


def test_a_comment_has_kernels_in_microseconds_and_jobs_in_dollars(repository):
    text, status = comment("HEAD", {"TRNSIM_KERNELS": "*.py", "TRNSIM_JOBS": "*.sbatch absent/*"})
    assert status == 1
    assert text.startswith(f"{MARK}\n")
    row = next(line for line in text.splitlines() if line.startswith("| softmax (kernels.py)"))
    assert "59.9 us" in row
    assert "+4.96 us" in row
    assert "FAIL: slower" in row
    assert "difference P10 to P90 +2.86 us to +6.84 us" in text
    assert "nisa.tensor" in text
    assert "$" in text or "USD" in text
    assert str(repository.parent) not in text
    assert repository.is_dir()


def test_a_change_of_nothing_is_said_so(repository):
    git("checkout", "-q", ".", folder=repository)
    text, status = comment("HEAD", {"TRNSIM_JOBS": "*.sbatch"})
    assert status == 0
    assert "no kernel, job spec or plan of this change differs" in text
    text, status = comment("HEAD", {"TRNSIM_KERNELS": "kernels.py", "TRNSIM_MAX_US": "70"})
    assert status == 0
    assert "| = | pass |" in text


def test_what_cannot_be_compared_is_in_the_comment(repository):
    (repository / "kernels.py").write_text("def broken(:\n")
    text, status = comment("HEAD", {"TRNSIM_KERNELS": "*.py"})
    assert status == 2
    assert "kernels.py is not valid Python" in text
    text, status = comment("no-such", {"TRNSIM_KERNELS": "*.py"})
    assert status == 2


def test_globs_that_match_nothing_are_in_the_comment(repository):
    assert repository.is_dir()
    text, status = comment("HEAD", {"TRNSIM_KERNELS": "kernel/*.py", "TRNSIM_JOBS": " "})
    assert status == 0
    assert r"no file matches TRNSIM_KERNELS: kernel/\*.py" in text
    assert "TRNSIM_JOBS" not in text


def test_globs_and_bases_that_cannot_be_read_are_in_the_comment(repository, monkeypatch):
    monkeypatch.setenv("TRNSIM_KERNELS", "/etc/*.py")
    assert main(["HEAD", "comment.md"]) == 2
    assert "TRNSIM_KERNELS has '/etc/" in (repository / "comment.md").read_text()
    monkeypatch.setenv("TRNSIM_KERNELS", "")
    monkeypatch.setenv("TRNSIM_JOBS", "train.sbatch")
    assert main(["no-such", "comment.md"]) == 2
    assert "no revision no-such" in (repository / "comment.md").read_text()
    monkeypatch.setenv("PATH", str(repository))
    assert main(["HEAD", "comment.md"]) == 2
    assert "git, which is not installed" in (repository / "comment.md").read_text()


def test_a_new_job_has_its_price(repository):
    shutil.copy("train.sbatch", "new.sbatch")
    text, status = comment("HEAD", {"TRNSIM_JOBS": "new.sbatch"})
    assert status == 0
    assert "new.sbatch" in text
    assert repository.is_dir()


def test_a_wrong_call_says_how(capsys):
    assert main([]) == 2
    assert "BASE [COMMENT.md]" in capsys.readouterr().err


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Programs of a runner: gh and curl note what they are told, pip does as well."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (
        ("gh", FAKE_GH),
        ("curl", FAKE_CURL),
        ("python3", FAKE_PYTHON.format(sys.executable)),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("KNOWN", str(tmp_path / "known"))
    (tmp_path / "known").write_text("")
    return tmp_path


def run_action(tools, base="HEAD"):
    """The action's own shell steps in order, as a runner runs them; the status of the last."""
    contexts = {
        "inputs.install || github.action_path": "/action",
        "inputs.kernels": "*.py",
        "inputs.jobs": "*.sbatch",
        "inputs.on": "trn2",
        "inputs.max-us": "",
        "inputs.base || github.event.pull_request.base.sha || 'HEAD^'": base,
        "inputs.token": "secret",
        "github.repository": "me/kernels",
        "github.event.pull_request.number": "7",
        "runner.temp": str(tools),
    }
    (tools / "output").write_text("")
    (tools / "summary").write_text("")

    def filled(text):
        outputs = dict(line.split("=", 1) for line in (tools / "output").read_text().splitlines())
        known = contexts | {f"steps.compare.outputs.{k}": v for k, v in outputs.items()}
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: known[match[1]], text)

    status = None
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step["run"]  # a script has values of others in variables alone
        variables = {name: filled(str(value)) for name, value in step["env"].items()}
        status = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={
                **os.environ,
                **variables,
                "GITHUB_OUTPUT": str(tools / "output"),
                "GITHUB_STEP_SUMMARY": str(tools / "summary"),
            },
            check=False,
        ).returncode
        assert status == 0 or step["name"] == "verdict", step["name"]
    return status


@pytest.mark.skipif(BASH is None, reason="the action's steps are of bash")
def test_the_actions_own_steps_comment_and_fail(repository, tools):
    assert run_action(tools) == 1
    pip, asked, written = (tools / "log").read_text().splitlines()
    assert pip == "-m pip install --quiet /action"
    assert asked.startswith("api repos/me/kernels/issues/7/comments --paginate")
    assert written == (
        f"api --method POST repos/me/kernels/issues/7/comments -F body=@{tools}/trnsim-comment.md"
    )
    text = (tools / "trnsim-comment.md").read_text()
    assert text == (tools / "summary").read_text()
    assert "+4.96 us" in text
    # A later push edits the comment; a change without a slower kernel passes.
    git("checkout", "-q", ".", folder=repository)
    (tools / "known").write_text("99\n100\n")
    (tools / "log").unlink()
    assert run_action(tools) == 0
    assert "--method PATCH repos/me/kernels/issues/comments/99 " in (tools / "log").read_text()


@pytest.mark.skipif(BASH is None, reason="GitLab's steps are of bash")
def test_the_steps_of_gitlab_write_a_note_and_fail(repository, tools):
    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())["trnsim"]
    (tools / "known").write_text('[{"id": 5, "body": "<!-- trnsim -->\\nold"}]')
    variables = {
        **job["variables"],
        "TRNSIM_KERNELS": "*.py",
        "TRNSIM_GITLAB_TOKEN": "secret",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD",
        "CI_API_V4_URL": "https://gitlab/api/v4",
        "CI_PROJECT_ID": "3",
        "CI_MERGE_REQUEST_IID": "4",
    }
    done = subprocess.run(
        [BASH, "-eo", "pipefail", "-c", "\n".join(job["script"])],
        env={**os.environ, **variables},
        cwd=repository,
        check=False,
    )
    assert done.returncode == 1
    _, _, written = (tools / "log").read_text().splitlines()
    assert "--request PUT" in written
    assert written.endswith("https://gitlab/api/v4/projects/3/merge_requests/4/notes/5")
    assert "+4.96 us" in (repository / "comment.md").read_text()
