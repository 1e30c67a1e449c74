"""`nki.typing`: annotations of kernel parameters, which are not checked."""

from __future__ import annotations

from typing import Any

from trnsim.nki.tensor import NkiTensor


class _Annotation:
    """An annotation, written `nt.tensor[shape]` or `nt.tensor`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getitem__(self, shape: Any) -> _Annotation:
        return self

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = _Annotation("tensor")
mutable_tensor = _Annotation("mutable_tensor")
scalar = _Annotation("scalar")

__all__ = ["NkiTensor", "mutable_tensor", "scalar", "tensor"]
