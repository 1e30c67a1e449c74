"""docs/generated/torch-ops.md, of what the checks found."""

import re
from collections import Counter

from remains import REMAINS

TITLES = {
    "forward": "results, views, changed arguments, `out=`, in-place forms",
    "gradient": "gradients",
    "compiled": "`torch.compile`, the first two samples, with their gradients",
    "chip": "under the policy `chip`: refused by name",
    "exact": "instruction by instruction, small samples",
    "exact_gradient": "gradients, instruction by instruction",
}
CONFORMANCE = """\
## Conformance

Every entry of `op_db` (torch.testing._internal.common_methods_invocations) is compared with
PyTorch's CPU: all samples, in float32 and bfloat16 where the operator has them, each entry in its
own process. An entry that compared nothing (uninitialised memory, code for other devices, programs
that PyTorch's compiler does not trace on the CPU) does not count as passed.

| check | entries | passed | compared nothing | remain | samples |
|---|---|---|---|---|---|"""
CHIP = """\
Under `chip`, an entry that compared nothing has no complex, float64 or sparse arguments or
results."""
REMAINING = """\
## What remains

The run fails if an entry listed here passes, or if one that is not listed fails.

| check | entry | reason | what was seen |
|---|---|---|---|"""
INSTRUCTIONS = """\
## Instruction by instruction

With `TRNSIM_NUMERICS=exact` an operator with a lowering runs as its kernel. Small samples among the
first of each entry, within 2**-12 of the largest element:

| check | entries | all by kernels | some on the host | differ |
|---|---|---|---|---|"""
CORE = """\
## Time of the core operators

Of PyTorch's {all} core operators {lowered} become one kernel (lowered) and {composed} several
(composed), whose timelines are their time; {nothing} run nothing on a device; the host computes
{host}, which have no time. The kernels are those of the smallest call that was seen.

| operator | time | kernels, or why there are none |
|---|---|---|"""
NO_KERNEL = re.compile(r"(aten::[\w.]+) (?:has no lowering|returns nothing|draws)")


def page(outcomes, times, version):
    """The whole page."""
    return "\n".join(
        [
            "# PyTorch's operators",
            "",
            f"Written by `tests/opinfo/conform.py`, with torch {version}.",
            "",
            *conformance(outcomes),
            *remaining(outcomes),
            *instructions(outcomes),
            *core(times),
        ]
    )


def conformance(outcomes):
    """How many entries are as on the CPU."""
    lines = CONFORMANCE.splitlines()
    for kind in REMAINS:
        of_kind = outcomes[kind].values()
        failed = sum(bool(one.failure) for one in of_kind)
        nothing = sum(not one.failure and not one.compared for one in of_kind)
        passed, samples = len(of_kind) - failed - nothing, sum(one.compared for one in of_kind)
        lines.append(
            f"| {TITLES[kind]} | {len(of_kind)} | {passed} | {nothing} | {failed} | {samples} |"
        )
    return [*lines, "", *CHIP.splitlines(), ""]


def remaining(outcomes):
    """What differs, and why."""
    lines = REMAINING.splitlines()
    for kind, listed in REMAINS.items():
        for name, one in outcomes[kind].items():
            if one.failure:
                seen = one.failure.replace("|", "\\|")[:120]
                why = listed.get(name, "not known yet")
                lines.append(f"| {kind} | `{name}` | {why} | {seen} |")
    return [*lines, ""]


def instructions(outcomes):
    """What runs instruction by instruction, and which operators keep others from it."""
    lines = INSTRUCTIONS.splitlines()
    hosts, differ = Counter(), []
    for kind in ("exact", "exact_gradient"):
        of_kind = outcomes[kind]
        on_host = {name: NO_KERNEL.search(one.failure) for name, one in of_kind.items()}
        apart = [n for n, one in of_kind.items() if one.failure and not on_host[n]]
        left = [name for name in of_kind if on_host[name]]
        done = sum(bool(one.compared) and not one.failure for one in of_kind.values())
        hosts.update(on_host[name][1] for name in left)
        differ += [(kind, name, of_kind[name].failure) for name in apart]
        lines.append(f"| {TITLES[kind]} | {len(of_kind)} | {done} | {len(left)} | {len(apart)} |")
    named = ", ".join(f"`{name.removeprefix('aten::')}`" for name in sorted(hosts))
    lines += ["", f"On the host, the first operator of each entry: {named}.", ""]
    if differ:
        lines += ["| check | entry | what was seen |", "|---|---|---|"]
        for kind, name, seen in differ:
            cleaned = seen.replace("|", "\\|")[:160]
            lines.append(f"| {kind} | `{name}` | {cleaned} |")
        lines.append("")
    return lines


def core(times):
    """How each core operator gets its time."""
    number = Counter(kind for kind, _ in times.values())
    lines = CORE.format(all=len(times), **number).splitlines()
    for name, (kind, what) in times.items():
        short = what if len(what) <= 100 else what[:97].rpartition(", ")[0] + ", ..."
        lines.append(f"| `{name.removeprefix('aten::')}` | {kind} | {short} |")
    return [*lines, ""]
