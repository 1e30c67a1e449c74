"""The commands and the pod of docs/how-to-kubernetes.md, which the tests run."""

import re
import shlex

import yaml
from daemons import ROOT

PAGE = (ROOT / "docs" / "how-to-kubernetes.md").read_text(encoding="utf-8")


def commands(variables):
    """Words of the page's commands, each without `trnsim`; a pipe has several."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            for name, value in variables.items():
                line = line.replace(f'"${name}"', shlex.quote(value))  # noqa: PLW2901
            found += [part.split()[1:] for part in line.split(" | ")]
    return found


def command(start, **variables):
    """The page's command that begins with the words `start`."""
    (words,) = (words for words in commands(variables) if " ".join(words).startswith(start))
    return words


def manifest(kind):
    """The page's manifest of that kind."""
    texts = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (found,) = (each for each in map(yaml.safe_load, texts) if each["kind"] == kind)
    return found


def pod():
    """The pod of the page, and what it prints."""
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    return manifest("Pod"), output
