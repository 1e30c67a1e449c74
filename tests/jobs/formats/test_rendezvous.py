import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.jobs.formats.rendezvous import with_head, without_head
from trnsim.jobs.job import Role

HEAD = "${NOWHERE:-10.0.0.1}"
COMMAND = ("printf", "%s\n", "$MASTER_ADDR:29500", "two words", "it's", "$HOME", "${MASTER_ADDR}")


def test_a_command_without_the_head_stays():
    role = Role(command=("torchrun", "--standalone", "$OTHER"))
    assert with_head(role, HEAD) == role.command
    assert without_head(role.command, HEAD) == role.command


@pytest.mark.parametrize(
    "role",
    [
        Role(command=COMMAND, entry_words=1),
        Role(command=COMMAND, environment=(("MASTER_ADDR", "a"),)),
        Role(command=("sh", "-c", "torchrun $MASTER_ADDR; echo")),
    ],
)
def test_a_head_that_another_defines_stays(role):
    assert with_head(role, HEAD) == role.command


@pytest.mark.skipif(shutil.which("sh") is None, reason="a shell of POSIX is not everywhere")
def test_a_shell_replaces_the_head_alone():
    words = with_head(Role(command=COMMAND), HEAD)
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines() == ["10.0.0.1:29500", "two words", "it's", "$HOME", "10.0.0.1"]


@given(st.lists(st.text(max_size=6) | st.sampled_from(["$MASTER_ADDR:1", "a$MASTER_ADDR"])))
def test_the_command_is_read_back(words):
    role = Role(command=tuple(words))
    assert without_head(with_head(role, HEAD), HEAD) == role.command
    assert with_head(replace(role, entry_words=1), HEAD) == role.command


def test_a_shell_of_others_stays():
    words = (*with_head(Role(command=COMMAND), HEAD), 'open "')
    assert without_head(words, HEAD) == words
