"""Rules of claims on devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trnsim.jobs.finding import JobRule, Violation
from trnsim.jobs.spec import JobSpec

_GROUPS: Final = (1, 4, 8, 16)
_SOURCE: Final = "aws-neuron-sdk deploy/eks/dra.rst, Example 1 - Connected Neuron Devices"


def _group_sizes(spec: JobSpec) -> Iterator[Violation]:
    for path, claims in spec.claims.items():
        for number, claim in enumerate(claims):
            field = f"{path}.claims.{number}"
            if claim.group is None:
                continue
            if claim.group not in _GROUPS:
                yield Violation(
                    f"{field}.group",
                    f"claim {claim.name}: devicegroup{claim.group}_id is no attribute of a device",
                    "match devicegroup1_id, devicegroup4_id, devicegroup8_id or devicegroup16_id",
                )
            elif claim.devices is not None and claim.devices > claim.group:
                least_size = next((size for size in _GROUPS if size >= claim.devices), None)
                yield Violation(
                    f"{field}.devices",
                    f"claim {claim.name}: {claim.devices} devices of a group of {claim.group}",
                    f"match devicegroup{least_size}_id" if least_size else "claim fewer devices",
                )


RULES: Final = (
    JobRule(
        "claim-group",
        "Connected devices are claimed from a group that has as many.",
        _SOURCE,
        _group_sizes,
    ),
)
