"""The site of the documentation: a hook of MkDocs, and the program that builds it.

Pages of docs are written for a repository: they link to files beside docs, nest lists by two
columns, and have no front page. Here README is the front page, lists are indented as Python's
Markdown asks, and links out of docs lead to the repository, or are their words without one.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages of the root and their names on the site."""
STYLE: Final = """\
.md-grid { max-width: 78rem; }
.md-typeset pre > code { font-size: 0.68rem; }
.md-typeset td:first-child code { white-space: nowrap; }
"""
"""Room for lines of a hundred columns, and names in one piece."""
_LINK: Final = re.compile(
    r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?\)"
)
_FENCE: Final = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_NESTED: Final = re.compile(r"^( {2,6})(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_INDENT: Final = 4
"""Columns of a level of Python's Markdown."""
_HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_MARKDOWN: Final = re.compile(r"[`\\]")


def setting(folder: Path = ROOT) -> tuple[str, str]:
    """The repository that pyproject.toml names, or "", and the version."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    return str(hook.get("repository", "")).rstrip("/"), str(project["project"]["version"])


def outside_code(text: str, change: Any) -> str:
    """Markdown with `change` made to all of it but its blocks of code."""
    parts = _FENCE.split(text)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def indented(text: str) -> str:
    """Markdown whose nested lists are indented by four columns a level."""
    return _NESTED.sub(lambda match: " " * (_INDENT * (1 + (len(match[1]) >= _INDENT))), text)


def relinked(text: str, page: str, repository: str, version: str) -> str:
    """A page's Markdown with its links as they are on the site.

    Args:
        text: the Markdown.
        page: where it lies below the root of the tree.
        repository: where links to files that are no pages lead, or "".
        version: whose files these are.
    """
    here = posixpath.dirname(PAGES.get(page, page.removeprefix("docs/")))

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        named = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if named and not named.startswith("makers/") and "." in posixpath.basename(named):
            return f"[{words}]({posixpath.relpath(named, here or '.')}{anchor})"
        return f"[{words}]({repository}/blob/v{version}/{path}{anchor})" if repository else words

    return _LINK.sub(link, text)


def title(file: Path) -> str:
    """The heading of a page, as plain text."""
    found = _HEADING.search(file.read_text(encoding="utf-8"))
    return _MARKDOWN.sub("", found[1]) if found else file.stem


def expanded(nav: Any, docs: Path) -> Any:
    """The navigation with the pages of a folder in place of FOLDER/*."""
    if isinstance(nav, list):
        return [expanded(each, docs) for each in nav]
    if isinstance(nav, dict):
        return {name: expanded(each, docs) for name, each in nav.items()}
    if not nav.endswith("/*"):
        return nav
    files = sorted((docs / nav[:-2]).glob("*.md"), key=lambda file: (file.stem != "index", file))
    return [{title(file): file.relative_to(docs).as_posix()} for file in files]


def on_config(config: Any) -> Any:
    """Complete the settings: the navigation, anchors as a repository has them, its address."""
    slugify = import_module("pymdownx.slugs").slugify  # MkDocs alone needs it
    config["nav"] = expanded(config["nav"], Path(config["docs_dir"]))
    config["mdx_configs"]["toc"] = {"slugify": slugify(case="lower"), "permalink": True}
    repository, _ = setting()
    if repository:
        config["repo_url"] = repository
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root, and the style."""
    generated = import_module("mkdocs.structure.files").File.generated
    files.append(generated(config, "site.css", content=STYLE))
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The Markdown of a page as the site needs it."""
    uri = page.file.src_uri
    source = next((name for name, own in PAGES.items() if own == uri), f"docs/{uri}")
    repository, version = setting()

    def adapted(part: str) -> str:
        return indented(relinked(part, source, repository, version))

    return outside_code(markdown, adapted)


def main() -> int:
    """Build the site with every warning as an error, which is printed; its exit status."""
    # No --quiet: MkDocs counts the warnings that it logs.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *sys.argv[1:]]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of a later version
    ended = subprocess.run(  # noqa: S603  this Python and the words of make
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    told = [line for line in ended.stderr.splitlines() if not line.startswith("INFO")]
    sys.stdout.write("\n".join([*told, "" if ended.returncode else "build/site/index.html\n"]))
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
