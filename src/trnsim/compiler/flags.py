"""The flags of neuronx-cc: those that change a graph here, and those without effect.

They come as one text (NEURON_CC_FLAGS), as a list (`compiler_args`), or as the options of
`torch.compile`. As in neuronx-cc, the last of several settings of one flag holds. A flag that AWS
documents and that means nothing here is accepted, and `Flags.notes` names it.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst, 'compile' Command.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from trnsim.compiler.flag_table import DOWNCASTS, FLAGS, INF1, SOURCE, SPELLINGS, CompilerFlag
from trnsim.errors import BadInput
from trnsim.formatting import enumerated

VARIABLE: Final = "NEURON_CC_FLAGS"
_TARGET: Final = "target"
_CORES: Final = "logical-nc-config"
_DOWNCAST: Final = "implicit-integer-downcast"
_ARGUMENTS_OPTION: Final = "compiler_args"
"""The option whose value is a text of flags."""
_INTERNAL_PREFIXES: Final = ("internal-", "enable-internal-")
"""The beginning of names of flags for a part of AWS's compiler."""
_SHORT_LEVEL: Final = re.compile(r"-O(?P<level>\d+)")
_CAST_DTYPE: Final = {"bf16": "bfloat16", "fp16": "float16", "fp8_e4m3": "float8_e4m3"}


@dataclass(frozen=True)
class Flags:
    """Settings of the compiler; the defaults are those of neuronx-cc 2.27 (Neuron 2.32).

    AWS announces that the release after it computes in 64 bits and permits no downcast by default.

    Attributes:
        auto_cast: which float32 operations are cast: "none" (the default), "matmult", "all".
        auto_cast_type: the format after a cast: "bf16" (the default), "fp16", "tf32", "fp8_e4m3".
        optlevel: 1, 2 (the default) or 3: how long to search for a fast program.
        model_type: "generic" (the default), "transformer", "unet-inference".
        logical_nc_config: the number of NeuronCores that share a graph, 1 or 2; None is the chip's
            own default.
        implicit_integer_downcast: the operations that may lose precision of integers, in order.
            The default is all of them.
        native_int64: True if 64-bit integers are computed in 64 bits. False is the default.
        mixed_precision_accumulation: True, the default, if softmax, norms and sums accumulate in
            float32.
        saturate_infinity: True if a matmul that transposes makes infinities the largest numbers.
        fp8_e4m3fn_as_e4m3: True if float8_e4m3fn is taken for float8_e4m3.
        target: the instance family that was named, or "".
        notes: a sentence on each flag that was accepted without effect. Equality ignores it.

    Raises:
        BadInput: for a value that a flag does not take.
    """

    auto_cast: str = "none"
    auto_cast_type: str = "bf16"
    optlevel: int = 2
    model_type: str = "generic"
    logical_nc_config: int | None = None
    implicit_integer_downcast: tuple[str, ...] = DOWNCASTS
    native_int64: bool = False
    mixed_precision_accumulation: bool = True
    saturate_infinity: bool = False
    fp8_e4m3fn_as_e4m3: bool = False
    target: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for member in fields(self):
            setting = [flag for flag in FLAGS.values() if flag.sets == member.name]
            value = getattr(self, member.name)
            legal = [member.default, *(value for flag in setting for value in flag.values.values())]
            is_legal = any(type(value) is type(choice) and value == choice for choice in legal)
            if setting and not is_legal and not _are_downcasts(setting[0], value):
                _refuse_value(setting[0], value, f"Flags({member.name}={value!r})")

    @property
    def cast_dtype(self) -> str:
        """The graph's name of `auto_cast_type`; "" for tf32, which no tensor of a graph has."""
        return _CAST_DTYPE.get(self.auto_cast_type, "")

    @classmethod
    def parse(
        cls, source: str | Sequence[str], where: str = VARIABLE, after: Flags | None = None
    ) -> Flags:
        """The flags in a text as a shell reads it, or in a list.

        Args:
            source: the text or list.
            where: the origin of `source`, for errors.
            after: earlier flags, which these override.

        Raises:
            BadInput: for a word that is no flag of neuronx-cc, and for an illegal value.
        """
        flags = after or cls()
        for flag, value in flag_settings(source, where):
            flags = _with_setting(flags, flag, value, where)
        return flags

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Flags:
        """The flags in the options of `torch.compile`, after those of NEURON_CC_FLAGS.

        A key is a flag's name, with underscores or hyphens: ``{"auto_cast": "matmult"}``; a flag
        without a value takes True. `compiler_args` takes a text or a list of flags.

        Raises:
            BadInput: as `parse`.
        """
        words = [word for name, value in options.items() for word in _option_words(name, value)]
        return cls.parse(words, "options", cls.of_environment())

    @classmethod
    def of_environment(cls) -> Flags:
        """The flags in NEURON_CC_FLAGS.

        Raises:
            BadInput: as `parse`.
        """
        return cls.parse(os.environ.get(VARIABLE, ""))


def flag_settings(
    source: str | Sequence[str], where: str = VARIABLE, operands: list[str] | None = None
) -> Iterator[tuple[CompilerFlag, str]]:
    """Each flag in a text or a list, with its value, "" for none.

    Args:
        source: the text or list.
        where: the origin of `source`, for errors.
        operands: receives the words that are neither flags nor their values; None if such words
            are refused.

    If `operands` is None, words after a flag for a part of AWS's compiler are that flag's value.

    Raises:
        BadInput: for a word that is no flag of neuronx-cc, and a flag that lacks a value or takes
            none.
    """
    return _parse_words(deque(_words(source, where)), where, operands)


def program_flags(
    source: str | Sequence[str], target: str, cores: int, where: str = VARIABLE
) -> list[str]:
    """The flags on which a program depends, in one spelling: the target, cores, then `source`'s.

    Flags of files, logs and caches are left out.
    """
    options = [
        f"--{flag.name}={value}" if value else f"--{flag.name}"
        for flag, value in flag_settings(source, where)
        if not flag.is_of_host and flag.name not in (_TARGET, _CORES)
    ]
    return [f"--{_TARGET}={target}", f"--{_CORES}={cores}", *options]


def _words(source: Any, where: str) -> list[str]:
    """The words of a text, split as by a shell, or those of a list.

    Raises:
        BadInput: for a quotation without an end, and for a word that is no text.
    """
    if isinstance(source, str):
        try:
            return shlex.split(source)
        except ValueError as error:
            raise BadInput(f"{where}: {source!r}: {error}", fix="close the quotation") from error
    words: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    for word in words:
        if not isinstance(word, str):
            raise BadInput(f"{where}: {word!r} among the flags; legal: text", fix=f"'{word}'")
    return words


def _option_words(name: Any, value: Any) -> list[str]:
    """The words that one option of `torch.compile` stands for."""
    if not isinstance(name, str):
        raise BadInput(f"options: {name!r} is no flag's name; legal: text", fix=f"'{name}'")
    if name == _ARGUMENTS_OPTION:
        return _words(value, f"options[{name!r}]")
    word = f"--{_spelling(name)}"
    if value is True:
        return [word]
    if value is False:
        raise BadInput(
            f"options: {name}=False", fix=f"leave it out, or name the flag that turns {word} off"
        )
    if value is None:
        raise BadInput(
            f"options: {name}=None; legal: a value, or True for a flag without one",
            fix="leave it out for the default",
        )
    is_list = isinstance(value, list | tuple)
    return [f"{word}={','.join(map(str, value)) if is_list else value}"]


def _parse_words(
    words: deque[str], where: str, operands: list[str] | None
) -> Iterator[tuple[CompilerFlag, str]]:
    """Each flag with its value, "" for none.

    Raises:
        BadInput: for a word that is no flag, and for a flag that lacks a value or takes none.
    """
    while words:
        word = words.popleft()
        if operands is not None and not word.startswith("-"):
            operands.append(word)
            continue
        short = _SHORT_LEVEL.fullmatch(word)
        name, equals, value = ("-O", "=", short["level"]) if short else word.partition("=")
        flag = _flag_of_word(name, where)
        if flag.takes_value and not equals:
            value = words.popleft() if words else ""
        if flag.takes_value and (not value or (not equals and _is_flag(value))):
            _refuse_value(flag, value, f"{where}: {word} without a value")
        if equals and not flag.takes_value and flag.name in FLAGS:
            raise BadInput(
                f"{where}: {word}; the flag takes no value", fix=f"--{flag.name}", source=SOURCE
            )
        if flag.name not in FLAGS and not equals and operands is None:
            value = " ".join(_take_values(words))
        yield flag, value


def _is_flag(word: str) -> bool:
    """True if a word is a flag; a word with a hyphen and blanks is a value, as in argparse."""
    return word.startswith("-") and " " not in word


def _take_values(words: deque[str]) -> Iterator[str]:
    """Remove and yield the words before the next flag."""
    while words and not _is_flag(words[0]):
        yield words.popleft()


def _flag_of_word(word: str, where: str) -> CompilerFlag:
    """The flag that a word names.

    Raises:
        BadInput: naming the nearest flag, or that it is one of neuron-cc, the compiler for Inf1.
    """
    name = SPELLINGS.get(word, _spelling(word))
    if not word.startswith("-"):
        raise BadInput(
            f"{where}: {word!r} stands where a flag should", fix=f"--{name}", source=SOURCE
        )
    if name in FLAGS:
        return FLAGS[name]
    if name.startswith(_INTERNAL_PREFIXES):
        return CompilerFlag(name=name, note="has no effect: it is for a part of AWS's compiler")
    if name in INF1:
        raise BadInput(
            f"{where}: --{name} is a flag of neuron-cc, the compiler for Inf1",
            fix=f"neuronx-cc, for which this stands, has {INF1[name]}",
            source="aws-neuron-sdk compiler/neuron-cc/command-line-reference.rst",
        )
    matches = get_close_matches(name, FLAGS, 1)
    raise BadInput(
        f"{where}: {word} is no flag of neuronx-cc",
        fix=f"did you mean --{matches[0]}?" if matches else f"its flags: {', '.join(FLAGS)}",
        source=SOURCE,
    )


def _with_setting(flags: Flags, flag: CompilerFlag, value: str, where: str) -> Flags:
    """`flags` with the setting of a flag.

    Raises:
        BadInput: for a value that the flag does not take.
    """
    setting = f"--{flag.name}={value}" if value else f"--{flag.name}"
    downcasts = tuple(name for name in DOWNCASTS if name in value.split(","))
    if value in flag.values:
        changes = {flag.sets: flag.values[value]} if flag.sets else {}
    elif flag.name == _DOWNCAST and len(downcasts) == len(set(value.split(","))):
        changes = {flag.sets: downcasts}
    elif flag.values:
        _refuse_value(flag, value, f"{where}: {setting}")
    else:
        changes = {}
    note = flag.notes.get(value, flag.note)
    notes = [line for line in flags.notes if not re.match(rf"--{re.escape(flag.name)}[= ]", line)]
    notes += [f"{setting} {note}"] if note else []
    return replace(flags, **changes, notes=tuple(notes))


def _are_downcasts(flag: CompilerFlag, value: Any) -> bool:
    """True if a value lists operations that may lose precision of integers, in their order."""
    is_listed = flag.name == _DOWNCAST and isinstance(value, tuple)
    return is_listed and value == tuple(name for name in DOWNCASTS if name in value)


def _refuse_value(flag: CompilerFlag, value: object, setting: str) -> NoReturn:
    """Raise `BadInput` with the legal values of the flag and the nearest of them."""
    legal = [*filter(None, flag.values), *([flag.value_text] if flag.value_text else [])]
    matches = get_close_matches(str(value), flag.values, 1) or [*flag.values, flag.value_text]
    example = matches[0] if flag.values else "VALUE"
    raise BadInput(
        f"{setting}; legal: {enumerated(legal, 'or')}"
        if any(legal)
        else f"{setting}; legal: a bool",
        fix=f"--{flag.name}={example}" if example else f"--{flag.name}",
        source=SOURCE,
    )


def _spelling(name: str) -> str:
    """A flag's name without the dashes before it; some of AWS's own have underscores."""
    return name.lstrip("-").replace("_", "-")
