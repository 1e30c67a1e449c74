"""README's links and the project's URLs on a package index: a hook of the build backend.

A package index shows README without the files beside it. Their addresses follow from one setting,

    [tool.hatch.metadata.hooks.custom]
    repository = "https://github.com/OWNER/trnsim"

Without it the built package has no URLs, and README's relative links are their words alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)")
"""A relative link of Markdown: its words, and its target."""
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
"""A block of code, which has no links."""


def urls(repository: str, version: str) -> dict[str, str]:
    """The project's URLs by label, of the files of one version."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/v{version}/README.md#where-to-read-on",
        "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def absolute(text: str, repository: str, version: str) -> str:
    """Markdown whose relative links are of a version's tag, or words without a repository."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        return f"[{words}]({repository}/blob/v{version}/{target})" if repository else words

    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def checked(repository: object) -> str:
    """The setting, without a slash at its end.

    Raises:
        ValueError: it is no address of a repository.
    """
    if repository is None:
        return ""
    if not isinstance(repository, str) or not re.fullmatch(
        r"https://[\w.-]+(/[\w.~-]+){2,}/?", repository
    ):
        message = (
            f"pyproject.toml: repository is {repository!r}; legal: the address of a repository, "
            "such as https://github.com/OWNER/trnsim, or no such line"
        )
        raise ValueError(message)
    return repository.rstrip("/")


class IndexPage(MetadataHookInterface):
    """Fills in the fields that pyproject calls dynamic: `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of a package that is being built."""
        repository = checked(self.config.get("repository"))
        version = str(metadata["version"])
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, repository, version),
        }
        metadata["urls"] = urls(repository, version) if repository else {}
