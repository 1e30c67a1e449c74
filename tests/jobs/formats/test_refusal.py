import re

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.refusal import (
    UnsupportedField,
    check_expressible,
    check_name,
    check_ranks,
    common_value,
    in_units,
)
from trnsim.jobs.job import Job, Role

UNSUPPORTED_FIELDS = {
    "copies": UnsupportedField("no arrays", "one"),
    "roles.cores": UnsupportedField("no cores"),
}


def test_a_field_without_a_place_is_refused():
    check_expressible(Job(roles=(Role(), Role(devices=2))), UNSUPPORTED_FIELDS)
    with pytest.raises(BadInput, match="copies is 3: no arrays"):
        check_expressible(Job(copies=3), UNSUPPORTED_FIELDS)
    with pytest.raises(BadInput, match="role 'b': cores is 2: no cores"):
        check_expressible(Job(roles=(Role(), Role(name="b", cores=2))), UNSUPPORTED_FIELDS)


def test_a_name_is_legal_or_of_a_template():
    pattern = re.compile("[a-z]+")
    check_name("abc", pattern, "a word")
    check_name("${NAME}-1", pattern, "a word")
    for name in ("", "A", "a1", "<"):
        with pytest.raises(BadInput, match="legal for a word"):
            check_name(name, pattern, "a word")


def test_ranks_are_those_that_the_command_starts():
    command = ("torchrun", "--nproc-per-node", "2")
    check_ranks(Role())
    check_ranks(Role(command=command))
    check_ranks(Role(command=command, processes=2))
    with pytest.raises(BadInput, match="'main': processes is 4: a container is started once"):
        check_ranks(Role(command=command, processes=4))


def test_a_quantity_in_units():
    assert in_units(None, 4, "x", "fours") is None
    assert in_units(0, 4, "x", "fours") == 0
    assert in_units(12, 4, "x", "fours") == 3
    assert in_units(0.25, 1 / 1024, "x", "parts") == 256
    with pytest.raises(BadInput, match="x is 13; legal: a whole number of fours"):
        in_units(13, 4, "x", "fours")


def test_a_field_that_roles_share():
    assert common_value(Job(), "instance", "why") == ""
    assert common_value(Job(roles=(Role(image="a"), Role(image="a"))), "image", "why") == "a"
    with pytest.raises(BadInput, match="image is 'a' in one role and 'b' in another: why"):
        common_value(Job(roles=(Role(image="a"), Role(image="b"))), "image", "why")
