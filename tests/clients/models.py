"""docs/generated/models.md: every architecture of the installed transformers, tiny, on the device.

What is known already is kept in build/models.jsonl, so that a stopped run goes on where it stopped:
delete it to begin anew, or ask for some rows again, by how they end, an architecture or an operator
(`--again "not built"`).
"""

import argparse
import copy
import logging
import warnings
from collections import Counter
from pathlib import Path

import tiny
import torch
import transformers
from each import AT_ONCE, line, rows_of
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import OperatorNotModelled

ROOT = Path(__file__).parents[2]
PAGE, KNOWN = ROOT / "docs" / "generated" / "models.md", ROOT / "build" / "models.jsonl"
GRADIENT = "gradient of "
OF_VALUES = {
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave.Tensor",
    "aten::unique_consecutive",
    "aten::_unique2",
}
NOTHING = 1e-6  # below this the largest number of a tensor counts as zero


def outputs_and_gradients(built, device):
    """Every output, and the gradient of their mean squares by every parameter, on the CPU."""
    model = copy.deepcopy(built.model).to(device)
    outputs = tiny.Built(model, built.inputs).forward(device)
    loss = sum(one.float().square().mean() for one in outputs.values() if one.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    found = {name: value.detach().cpu() for name, value in outputs.items()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and parameter.numel():
            found[GRADIENT + name] = parameter.grad.cpu()
    return found


def difference(found, expected):
    """The largest difference, relative to the largest number of the tensor that it is in.

    A gradient that is zero but for rounding is measured by a thousandth of the model's largest.
    """
    largest = {name: value.nan_to_num(0).abs().max().item() for name, value in expected.items()}
    steepest = max((size for name, size in largest.items() if name.startswith(GRADIENT)), default=0)
    worst = 0.0
    for name, value in expected.items():
        mine, theirs = found[name].double(), value.double()
        if not torch.equal(mine.isnan(), theirs.isnan()):
            return float("inf")
        least = steepest / 1000 if name.startswith(GRADIENT) else 0
        scale = max(largest[name], least, NOTHING)
        worst = max(worst, (mine - theirs).nan_to_num(0).abs().max().item() / scale)
    return worst


def outcome(kind):
    """What became of an architecture, as a row of the page."""
    try:
        name, built = tiny.build(kind)
        expected = outputs_and_gradients(built, "cpu")
    except tiny.CannotBuild as error:
        return {"kind": kind, "end": "not built", "why": line(error)}
    except Exception as error:  # noqa: BLE001  the CPU's own backward pass may fail
        return {"kind": kind, "end": "not built", "why": f"on the CPU: {line(error)}"}
    row = {"kind": kind, "class": name, "inputs": list(built.inputs)}
    try:
        with recording() as calls:
            found = outputs_and_gradients(built, "neuron")
    except OperatorNotModelled as error:
        return row | {"end": "operator missing", "why": line(error)}
    except Exception as error:  # noqa: BLE001  whatever it is stands on the page
        return row | {"end": "fails", "why": f"{type(error).__name__}: {line(error)}"}
    times = step_time(calls, "trn2").times
    missing = {
        call.name: time.missing_reason for call, time in times.items() if time.missing_reason
    }
    return row | {
        "end": "runs",
        "difference": difference(found, expected),
        "gradients": sum(one.startswith(GRADIENT) for one in expected),
        "untimed": sorted(missing),
        "reasons": {name: _reason(name, why) for name, why in missing.items()},
        "refused": sorted(torch.neuron.host_fallbacks()),
    }


def _reason(name, why):
    """Why an operator has no time, without its name."""
    if name in OF_VALUES:
        return "the shape of its result depends on values"
    return why.removeprefix(f"{name} has no lowering for ").removeprefix(f"{name} has ")


def load_what_all_need():
    """The modules of a first model, once, before the processes part.

    No backward pass: after one, PyTorch refuses another in a forked process.
    """
    torch.set_num_threads(1)
    _, built = tiny.build("llama")
    with torch.no_grad(), recording() as calls:
        tiny.Built(built.model.to("neuron"), built.inputs).forward("neuron")
    step_time(calls, "trn2")


def kinds_with_a_class():
    """The architectures that have a model class; the others are parts of these."""
    return [kind for kind in CONFIG_MAPPING_NAMES if tiny.classes_of(kind)]


def page(rows):
    """The page."""
    ends = Counter(row["end"] for row in rows)
    runs = [row for row in rows if row["end"] == "runs"]
    refused = [row for row in runs if row["refused"]]
    untimed = Counter(name for row in runs for name in row["untimed"])
    why = {name: text for row in runs for name, text in row.get("reasons", {}).items()}
    return "\n".join(
        [
            HEAD.format(
                version=transformers.__version__,
                all=len(rows),
                runs=ends["runs"],
                whole=sum(not row["untimed"] for row in runs),
                refused=len(refused),
                missing=ends["operator missing"] + ends["fails"],
                unbuilt=ends["not built"],
            ),
            "| architecture | class | inputs | difference | the chip lacks | without a time |",
            "|---|---|---|---|---|---|",
            *(_ran(row) for row in runs),
            "",
            "## Operators without a time",
            "",
            "| operator | architectures | why, on one of them |",
            "|---|---|---|",
            *(
                f"| `{name}` | {number} | {_reason(name, why.get(name, ''))} |"
                for name, number in untimed.most_common()
            ),
            "",
            "## What does not run",
            "",
            "| architecture | | why |",
            "|---|---|---|",
            *(
                f"| {row['kind']} | {row['end']} | {_plain(row['why'])} |"
                for row in rows
                if row["end"] != "runs"
            ),
            "",
        ]
    )


HEAD = """# Models

A tiny model of every architecture of transformers {version} that has a model class, with random
weights, runs forward and backward on the device. Rules over the names in its configuration build it
(`tests/clients/models.py` writes this page).

Of {all} architectures, {runs} run, {whole} of them with a time for every operator; {missing} fail
or miss an operator. {unbuilt} were not built: the rules make no tiny model that PyTorch's CPU runs,
or their package is not installed. With TRNSIM_POLICY=chip, {refused} are refused by name, for the
dtypes in the column "the chip lacks".

The difference from the CPU is the largest of all outputs and gradients, relative to the largest
number of its tensor. A gradient that is zero but for rounding is compared with a thousandth of the
model's largest. Where the difference exceeds 1e-4, the CPU's own result differs as much from
float64's. The host computes operators without a time.
"""


def _ran(row):
    lacks = ", ".join(row["refused"])
    names = ", ".join(f"`{name.removeprefix('aten::')}`" for name in row["untimed"])
    return (
        f"| {row['kind']} | `{row['class']}` | {', '.join(row['inputs'])} | "
        f"{row['difference']:.0e} | {lacks} | {names} |"
    )


def _plain(why):
    """A message that a table can hold."""
    return f"`{why.replace('|', '/').replace('`', '')}`"


def arguments():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--again", nargs="+", default=[], help="make anew rows that end so, or have the operator"
    )
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="processes")
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    load_what_all_need()
    rows = rows_of(kinds_with_a_class(), outcome, KNOWN, asked.again, asked.at_once)
    PAGE.write_text(page(rows), encoding="utf-8")
    print(f"wrote {PAGE.name}")
