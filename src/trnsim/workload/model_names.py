"""Models by name: configurations that ship, and those in Hugging Face's cache.

A path that exists is itself. Else ``org/name`` is looked for in the cache and then among the models
that ship, and a name alone, such as llama-3.1-8b, among those that ship; case does not matter.

Source of the cache's folders: https://huggingface.co/docs/huggingface_hub/guides/manage-cache:
``models--ORG--NAME/snapshots/REVISION``, with the revision of a branch in ``refs/BRANCH``; its
place is ``HF_HUB_CACHE``, else ``HF_HOME/hub``, else ``~/.cache/huggingface/hub``. Nothing is
downloaded, and no package of Hugging Face is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.errors import BadInput
from trnsim.reader import FileRecord, between, declared, read_rows

FOLDER: Final = Path(__file__).parent / "models"
_CONFIG_FILE: Final = "config.json"
_PIPELINE_FILE: Final = "model_index.json"
_FOLDER_PREFIX: Final = "models--"
"""The beginning of the names of folders in the cache of Hugging Face's hub."""
_NAME_PART: Final = r"[\w.-]+"
_NAME: Final = re.compile(rf"({_NAME_PART}/)?{_NAME_PART}", re.ASCII)
_FILE_ENDINGS: Final = (
    ".json",
    ".py",
    ".pt2",
    ".jax",
    ".mlir",
    ".mlirbc",
    ".stablehlo",
    ".yaml",
    ".yml",
)
"""Endings of paths, which no model's name has."""
_MOST_SIMILAR_NAMES: Final = 3
"""Maximum number of similar names that an error lists."""
_COMPARED_CHARS: Final = 100
"""Characters of a name that is compared with known ones."""


@dataclass(frozen=True, kw_only=True)
class ShippedModel(FileRecord):
    """A model whose configuration ships.

    Attributes:
        name: short name, and name of its file.
        id: id on Hugging Face.
        also: names of other weights of the same shape.
    """

    name: str
    id: str
    family: str
    parameters: int = between("the published number", 1, 1e15)
    where: str
    also: tuple[str, ...] = declared((), help="names of weights of the same shape")

    @property
    def file(self) -> Path:
        """Path of its configuration."""
        return FOLDER / f"{self.name}.json"

    @property
    def names(self) -> Iterator[str]:
        """All its names, with the organisation and without."""
        organisation, _, model_name = self.id.partition("/")
        for name in (self.name, model_name, *self.also):
            yield name
            yield f"{organisation}/{name}"


@cache
def shipped() -> tuple[ShippedModel, ...]:
    """The models that ship, by family."""
    return tuple(read_rows(ShippedModel, FOLDER / "models.yaml"))


@cache
def _by_name() -> Mapping[str, ShippedModel]:
    return {name.casefold(): model for model in shipped() for name in model.names}


def config_file(model: str) -> Path:
    """The file that a path, a model's name or its id on Hugging Face stands for.

    A path stays as it is, also of a file that is missing.

    Raises:
        BadInput: it is a name, and of no model that ships or was downloaded.
    """
    path = Path(model)
    if _exists(path):
        return path / _CONFIG_FILE if _is_folder_of_model(path) else path
    file = named_file(model)
    if file is not None:
        return file
    if path.suffix.lower() in _FILE_ENDINGS or not _NAME.fullmatch(model) or model.startswith("."):
        return path
    raise BadInput(
        f"{model}: no such file, and no model of this name ships or lies in Hugging Face's cache",
        fix=f"{_similar_names(model)}trnsim models lists the names; "
        "else give the path of a config.json",
    )


def named_file(name: str) -> Path | None:
    """The configuration of the model of a name or an id; None where none is known."""
    if not _NAME.fullmatch(name):
        return None
    model = _by_name().get(name.casefold())
    return _cached_config(name) or (None if model is None else model.file)


def model_name(file: str | Path) -> str:
    """A model's name by its file: that of the cache, of the folder of a config.json, or its own."""
    path = Path(file)
    identity = hub_id(path)
    if identity and path.parent != FOLDER:
        return identity.rpartition("/")[2]
    folder = path.resolve().parent.name if path.stem == "config" else ""
    return folder or path.stem


def hub_id(file: Path) -> str:
    """The id on Hugging Face of a file that ships or lies in the cache; "" for another file."""
    if file.parent == FOLDER:
        model = _by_name().get(file.stem.casefold())
        return model.id if model else ""
    folders = file.parts[-4:-2]
    if len(folders) < 2 or folders[1] != "snapshots" or not folders[0].startswith(_FOLDER_PREFIX):  # noqa: PLR2004  the model's, and that of its revisions
        return ""
    return folders[0].removeprefix(_FOLDER_PREFIX).replace("--", "/")


def displayed(file: Path) -> str:
    """Display name of a file: the model's name if it ships or lies in the cache, else the path."""
    return file.stem if file.parent == FOLDER else hub_id(file) or str(file)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a path that no file can have
        return False


def _is_folder_of_model(path: Path) -> bool:
    return (
        path.is_dir() and (path / _CONFIG_FILE).is_file() and not (path / _PIPELINE_FILE).is_file()
    )


def _hub() -> Path:
    """The folder of Hugging Face's cache."""
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface"
    )
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()


def _downloaded_models() -> Mapping[str, Path]:
    """Folders of the models in the cache, by id in lower case."""
    try:
        folders = [folder for folder in _hub().iterdir() if folder.name.startswith(_FOLDER_PREFIX)]
    except OSError:
        return {}
    return {
        folder.name[len(_FOLDER_PREFIX) :].replace("--", "/").casefold(): folder
        for folder in folders
    }


def _cached_config(identity: str) -> Path | None:
    """The file of a model in the cache: of the branch main, or of its only revision."""
    folder = _downloaded_models().get(identity.casefold())
    if folder is None:
        return None
    snapshot = _snapshot(folder)
    names = (_CONFIG_FILE, _PIPELINE_FILE)
    return next((snapshot / name for name in names if (snapshot / name).is_file()), None)


def _snapshot(folder: Path) -> Path:
    main = folder / "refs" / "main"
    revisions = folder / "snapshots"
    if main.is_file():
        revision = files.read_text(main).strip()
        if re.fullmatch(_NAME_PART, revision, re.ASCII) and revision not in (".", ".."):
            return revisions / revision
    snapshots = sorted(revisions.iterdir()) if revisions.is_dir() else []
    return snapshots[0] if len(snapshots) == 1 else revisions


def _similar_names(unknown_name: str) -> str:
    """Clause of an error with known names that resemble another; "" without."""
    spellings = {
        name.casefold(): name for model in shipped() for name in (model.name, *model.names)
    }
    spellings |= {name: name for name in _downloaded_models()}
    similar_names = get_close_matches(
        unknown_name[:_COMPARED_CHARS].casefold(), spellings, _MOST_SIMILAR_NAMES
    )
    return (
        f"perhaps {' or '.join(spellings[name] for name in similar_names)}; "
        if similar_names
        else ""
    )
