"""The lock of the tests' environment: whole, with hashes, and what constraints.txt says."""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import locking
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKED = locking.entries(locking.LOCK.read_text(encoding="utf-8"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required():
    """What the extras of the environment require here, by installed metadata, one by one."""
    extras = EXTRAS["optional-dependencies"]
    pending = [*EXTRAS["dependencies"], *(line for name in locking.EXTRAS for line in extras[name])]
    found = {}
    while pending:
        requirement = Requirement(pending.pop())
        asked = requirement.extras or {""}
        if requirement.name == "trnsim":
            pending += [line for name in asked for line in extras[name]]
            continue
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": name}) for name in asked):
            continue
        key = normalized(requirement.name), requirement.specifier
        if key not in found:
            found[key] = requirement.specifier
            try:
                lines = distribution(requirement.name).requires or []
            except (
                PackageNotFoundError
            ):  # a build of PyTorch without CUDA brings no libraries of it
                continue
            for line in lines:
                below = Requirement(line)
                if below.marker is None or any(
                    below.marker.evaluate({"extra": name}) for name in asked
                ):
                    below.marker = None
                    pending.append(str(below))
    return found


def test_every_distribution_has_a_version_and_hashes():
    assert len(LOCKED) > 100
    assert [name for name, (_, hashes) in LOCKED.items() if not hashes] == []
    assert all(len(set(hashes)) == len(hashes) for _, hashes in LOCKED.values())


def test_the_lock_has_all_that_the_environment_requires_and_in_range():
    found = required()
    assert len(found) > 60
    lacking = [
        (name, str(legal))
        for (name, _), legal in found.items()
        if name not in LOCKED or not legal.contains(LOCKED[name][0], prereleases=True)
    ]
    assert lacking == []


def test_what_is_pinned_for_tests_is_locked_at_its_version():
    pins = locking.constraints((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    pinned = dict(line.split("==") for line in pins if "==" in line)
    both = {normalized(name): version for name, version in pinned.items()}
    differing = {
        name: (version, LOCKED[name][0])
        for name, version in both.items()
        if name in LOCKED and LOCKED[name][0] != version
    }
    assert differing == {}
    assert {"numpy", "pytest", "torch"} <= LOCKED.keys() & both.keys()


def test_the_lock_names_no_place_of_a_registry():
    text = locking.LOCK.read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text


def test_a_lock_is_read_with_its_marks():
    text = f"# head\na_b==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:{'a' * 64}\nc==2\n"
    assert locking.entries(text) == {"a-b": ("1.0", ["a" * 64]), "c": ("2", [])}


def test_uv_is_asked_for_every_system_and_each_extra(tmp_path):
    words = locking.command(tmp_path / "pins", tmp_path / "lock", "--upgrade")
    assert words[:5] == [sys.executable, "-m", "uv", "pip", "compile"]
    assert {"--universal", "--generate-hashes", "--upgrade"} <= set(words)
    assert [words[at + 1] for at, word in enumerate(words) if word == "--extra"] == [
        *("torch", "jax", "test", "check"),
    ]
