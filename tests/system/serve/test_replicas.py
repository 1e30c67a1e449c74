"""Which replica an engine has."""

import pytest
from replica_cases import replica

from trnsim.system.serve.compiled import CompiledReplica
from trnsim.system.serve.dynamic import DynamicReplica


@pytest.mark.parametrize(
    ("is_compiled", "kind"), [(True, CompiledReplica), (False, DynamicReplica)]
)
def test_a_replica_is_of_its_engines_kind(is_compiled, kind):
    assert type(replica(is_compiled)) is kind
