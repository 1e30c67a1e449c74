"""docs/generated/on-disk.md: how 25 programs of torch_xla run."""

import re

from suites_page import table

HEAD = """# Programs of torch_xla from people's disks

Written by `python tests/upstream/on_disk.py FOLDER` from unmodified files of public repositories,
at the commits in `tests/upstream/on_disk.json`. Weights and data are staged, and arguments and
ranks are ours, as listed below. *Cuts* and *programs* are executions and compilations by
torch_xla's own counters, *seconds* those on the default chip, of the slowest rank. *Values* are
compared as the program itself does it (own), with what it prints for the CPU (CPU), or with the
same program on the CPU (same). A dash among the cuts: none is made, or the run is older than the
counters.

"""


def figure(value):
    """A number of three digits."""
    return f"{value:.3g}"


def slowest(outcome):
    """The figures of the process with most seconds on the device; {} without any."""
    timed = [each for each in outcome["figures"] if "device_time_s" in each]
    return max(timed, key=lambda each: each["device_time_s"], default={})


def counter(figures, *names):
    """The sum of counters; "-" if the package has none of them."""
    values = [figures.get("counters", {}).get(name) for name in names]
    present = [value for value in values if value is not None]
    return str(sum(present)) if present else "-"


def seconds(outcome):
    """Seconds on the chip of the slowest rank."""
    figures = slowest(outcome)
    if not figures.get("calls"):
        return "-"
    missing = sum(figures["missing"].values())
    share = f" ({missing} of {figures['calls']} calls without a time)" if missing else ""
    return figure(figures["device_time_s"]) + share


def largest(values, ranks):
    """The largest difference of two lists of numbers; None if they are not as long.

    Ranks print in any order.
    """
    device, cpu = (sorted(values[key]) if ranks else values[key] for key in ("device", "cpu"))
    if not device or len(device) != len(cpu):
        return None
    return max(abs(a - b) for a, b in zip(device, cpu, strict=True))


def values(row, outcome):
    """How the program's values compare."""
    words = []
    if row.get("own"):
        passed = sum(outcome["own"])
        words.append("own: equal" if passed == len(row["own"]) else f"own: {passed} of "
                     f"{len(row['own'])} lines")  # fmt: skip
    if "counted" in outcome:
        words.append(f"own: {outcome['counted']} passed")
    words += [f"CPU: {figure(each)} apart" if each is not None else "CPU: not printed"
              for each in outcome.get("pairs", [])]  # fmt: skip
    if "values" in outcome:
        other = outcome["values"]
        if "fault" in other:
            words.append(f"same: stops on the CPU ({other['fault'][-1][:80]})")
        else:
            apart = largest(other, row.get("ranks", 0))
            count = len(other["device"])
            words.append(f"same: {figure(apart)} apart in {count}" if apart is not None else
                         f"same: {count} and {len(other['cpu'])} values")  # fmt: skip
    return "; ".join(words) or "none are compared"


def values_column(row, outcome):
    """How the values compare; of a program that stops, those that it printed before."""
    printed = [apart for apart in outcome.get("pairs", []) if apart is not None]
    return values(row, outcome) if outcome["is_running"] or printed else "-"


def stop(outcome):
    """The error that ended a program, and where: one line."""
    errors = [each["error"] for each in outcome["figures"] if "error" in each]
    errors = [each for each in errors if each["type"] not in ("ChildFailedError", "SystemExit")]
    if errors:
        error = errors[0]
        place = next((at for at in reversed(error["places"]) if "build/on-disk" in at), "")
        where = f", at `{short(place)}`" if place else ""
        message = short(" ".join(error["message"].split()))[:400]
        return f"{error['type']}: {message}{where}"
    if outcome["status"] is None:
        return "still running at its time limit"
    return " ".join(outcome["last"][-1:]) or f"ended with {outcome['status']}"


def short(place):
    """A place without the folders above the clone."""
    return re.sub(r"\S*/(?:build/on-disk/\d+|site-packages|src)/", "", place)


def listed(row):
    """The row's stage, arguments and ranks in words."""
    words = []
    if row.get("stage"):
        words.append("staged " + ", ".join(f"`{' '.join(each)}`" for each in row["stage"]))
    if row.get("arguments"):
        words.append(f"arguments `{' '.join(map(str, row['arguments']))}`")
    if row.get("ranks"):
        words.append(f"{row['ranks']} ranks")
    if row.get("environment"):
        pairs = " ".join(f"{name}={value}" for name, value in row["environment"].items())
        words.append(f"`{pairs}`")
    if row.get("packages"):
        words.append(f"with {', '.join(row['packages'])}")
    if row.get("cpu"):
        edits = ", ".join(f"`{old}` → `{new}`" for old, new in row["cpu"])
        words.append(f"on the CPU with {edits.replace(chr(10), ' ')}")
    words.append(f"limit {row['limit_s']} s")
    return "; ".join(words)


def ran(row, outcome):
    """Whether it ran, in a word or two."""
    if not outcome["is_running"]:
        return "no"
    return "yes, until stopped" if row.get("endless") else "yes"


def page(rows, outcomes):
    """The page of all outcomes."""
    heads = ("", "program", "runs", "values", "cuts", "programs", "seconds")
    lines = []
    for row in rows:
        outcome = outcomes[row["number"]]
        figures = slowest(outcome)
        cuts = counter(figures, "CachedCompile", "UncachedCompile")
        line = (
            *(str(row["number"]), f"`{row['repository'].rpartition('/')[2]}/{row['file']}`"),
            *(ran(row, outcome), values_column(row, outcome)),
            *(cuts, counter(figures, "UncachedCompile"), seconds(outcome)),
        )
        lines.append(line)
    running = sum(outcomes[row["number"]]["is_running"] for row in rows)
    stops = "".join(
        f"- {row['number']}, `{row['file']}`: {stop(outcomes[row['number']])}\n"
        + (f"  {row['why']}\n" if row.get("why") else "")
        for row in rows
        if not outcomes[row["number"]]["is_running"]
    )
    stages = "".join(f"- {row['number']}: {listed(row)}\n" for row in rows)
    return (
        f"{HEAD}{running} of {len(rows)} run.\n\n{table(heads, lines)}"
        f"## Where the others stop\n\n{stops or 'None does.' + chr(10)}\n"
        f"## What is staged\n\n{stages}"
    )
