"""docs/generated/jax-conformance.md from the outcomes of JAX's own tests."""

from collections import Counter
from importlib.metadata import version

WAYS = {
    "neuron": "on the platform neuron",
    "cpu": "on XLA's CPU",
    "as-cpu": "on neuron, where JAX's tests take the platform for a CPU",
}

KNOWN = {
    "test_internal_device_put": "it counts jaxlib's copies; the plugin's private client makes some",
    "test_pure_callback": "host callbacks are refused, as by AWS",
    "test_debug_print": "printing from programs is a host callback, which is refused, as by AWS",
    "test_print_environment_info": "what it prints is not caught in this run; it is on neuron",
    "test_platform_dependent": "the program runs the branch of its platform, which is neuron",
}
"""Why cases differ, by how their names begin."""
HEAD = """# JAX's own tests

Written by `tests/jax_suite/jax_conformance.py`, with JAX {jax} and the unmodified tests of the same
tag, one generated case of each (JAX_NUM_GENERATED_CASES=1), on eight devices. XLA's CPU ran the
same cases on the same machine. `agrees` is the share of tests that neuron passes, among those that
the CPU passes and the suite does not skip on neuron. JAX's tests skip some cases on platforms that
they do not know; the last columns are of a run in which their own check of the platform answers
"cpu".

| suite | CPU passes | neuron passes | fails | skips | aborts | agrees | as cpu | fails | agrees |
|---|---|---|---|---|---|---|---|---|---|
"""


def counts(outcomes):
    """Numbers of cases by outcome."""
    return Counter(outcome for outcome, _ in outcomes.values())


def differing(cpu, ours):
    """The cases that the CPU passes and the device neither passes nor skips, with their reasons."""
    return {
        case: reason
        for case, (outcome, reason) in ours.items()
        if cpu.get(case, ("", ""))[0] == "passed" and outcome in {"failed", "ended"}
    }


def share(cpu, ours):
    """In how many of the cases the device agrees with the CPU, as text."""
    passed = sum(
        outcome == "passed" and cpu.get(case, ("", ""))[0] == "passed"
        for case, (outcome, _) in ours.items()
    )
    of = passed + len(differing(cpu, ours))
    return f"{passed} of {of}, {100 * passed / of:.2f} %" if of else "-"


def row(suite, ways):
    """A suite's row in the table."""
    cpu, ours, named = (ways[way] for way in ("cpu", "neuron", "as-cpu"))
    found, as_cpu = counts(ours), counts(named)
    cells = [
        f"`{suite}`",
        counts(cpu)["passed"],
        *(found[outcome] for outcome in ("passed", "failed", "skipped", "ended")),
        share(cpu, ours),
        *((as_cpu["passed"], as_cpu["failed"] + as_cpu["ended"]) if named else ("-", "-")),
        share(cpu, named),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def page(found):
    """The page, from suite -> way -> case -> (outcome, reason)."""
    ran = {suite: ways for suite, ways in found.items() if ways["neuron"]}
    lines = [HEAD.format(jax=version("jax")) + "\n".join(row(*one) for one in ran.items())]
    lines += ["", "## Cases that the CPU passes and the device does not", ""]
    for way in ("neuron", "as-cpu"):
        if not any(ways[way] for ways in ran.values()):
            continue
        lines += [f"{WAYS[way][:1].upper()}{WAYS[way][1:]}:", ""]
        differences = {
            f"- `{suite}` {case.partition('::')[2]}: {why(case)}{short(reason)}"
            for suite, ways in ran.items()
            for case, reason in differing(ways["cpu"], ways[way]).items()
        }
        lines += [*(sorted(differences) or ["- none"]), ""]
    lines += ["## Skips on the platform neuron that the CPU does not skip", ""]
    lines += ["| suite | reason | cases |", "|---|---|---|"]
    for suite, ways in ran.items():
        skips = Counter(
            short(reason)
            for case, (outcome, reason) in ways["neuron"].items()
            if outcome == "skipped" and ways["cpu"].get(case, ("", ""))[0] != "skipped"
        )
        lines += [f"| `{suite}` | {reason} | {number} |" for reason, number in skips.most_common()]
    return "\n".join(lines).rstrip() + "\n"


def why(case):
    """Why a case differs, where that is known."""
    name = case.rpartition("::")[2]
    found = (reason for start, reason in KNOWN.items() if name.startswith(start))
    return next((f"{reason}. " for reason in found), "")


def short(reason):
    """A reason in one line of a table."""
    line = " ".join(reason.split()).replace("|", "/")
    return line if len(line) <= 160 else f"{line[:157]}..."
