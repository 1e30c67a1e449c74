"""Options of `nki.jit`: `CompileConfig`, `SpecializationConfig`, and options of older versions.

They are for AWS's compiler. Only `nki_alloc_fallback=False` has an effect here: a spill is then
an error. The other options are kept, and compared where a kernel calls another.

Source: nki.jit and nki.compiler of NKI 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from trnsim.behaviours.compiler import CONFIGS
from trnsim.context_values import context_value
from trnsim.enumerations import Enumeration
from trnsim.errors import BadInput, SourceLine
from trnsim.nki.arguments import documented_class
from trnsim.nki.dialect import follows, running_version
from trnsim.user_warnings import warn

_JIT: Final = "nki.jit"
_OLDER_OPTIONS: Final = (
    *("mode", "platform_target", "debug_kernel", "show_compiler_tb", "experimental_flags"),
    *("additional_compile_opt", "enable_cache", "kernel_return"),
)
"""Options of older versions, which public kernels pass; NKI ignores them since 0.3."""


class AddressRotation(Enumeration, public="nki.compiler.AddressRotation"):
    """Whether AWS's compiler may move a tensor to another address."""

    AUTO = "AUTO"
    ENABLE = "ENABLE"
    DISABLE = "DISABLE"


@documented_class("nki.compiler.CompileConfig")
@dataclass(frozen=True, init=False)
class CompileConfig:
    """A kernel's options for AWS's compiler, `nki.jit(compile_config=...)`.

    Attributes:
        address_rotation: whether tensors may change their addresses, a member of
            `AddressRotation`; AUTO by default.
        non_ssa_legalization: whether a pass legalizes tensors that are written more than once;
            None for AWS's default, which is not public.
        dead_code_elim: whether tensors that nothing reads may be removed; None as above.
        barrier_check: whether barriers between the cores of a logical core are checked; None as
            above. Here races are found in any case.
        prefetch_auto: whether loads are prefetched into a ring of buffers; False by default.
        nki_alloc_fallback: whether the compiler allocates anew where NKI's own allocation fails;
            True by default. With False an exceeded SBUF or PSUM is an error instead of a spill.

    Raises:
        BadInput: for other options and other values.

    Source: nki.compiler.CompileConfig.
    """

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True

    def __init__(
        self,
        address_rotation: AddressRotation = AddressRotation.AUTO,
        non_ssa_legalization: bool | None = None,
        dead_code_elim: bool | None = None,
        barrier_check: bool | None = None,
        prefetch_auto: bool = False,
        nki_alloc_fallback: bool = True,
        **options: Any,
    ) -> None:
        _refuse_unknown("CompileConfig", options, [field.name for field in fields(self)])
        _set_fields(
            self,
            address_rotation=address_rotation,
            non_ssa_legalization=non_ssa_legalization,
            dead_code_elim=dead_code_elim,
            barrier_check=barrier_check,
            prefetch_auto=prefetch_auto,
            nki_alloc_fallback=nki_alloc_fallback,
        )


@documented_class("nki.compiler.SpecializationConfig")
@dataclass(frozen=True, init=False)
class SpecializationConfig:
    """A kernel's options for its specialization, `nki.jit(specialization_config=...)`.

    Attributes:
        allow_nested_config_override: where this kernel is launched and calls another whose
            `CompileConfig` differs, whether to warn instead of raising an error.

    Raises:
        BadInput: for other options and other values.

    Source: nki.compiler.SpecializationConfig.
    """

    allow_nested_config_override: bool = False

    def __init__(self, allow_nested_config_override: bool = False, **options: Any) -> None:
        _refuse_unknown("SpecializationConfig", options, [field.name for field in fields(self)])
        _set_fields(self, allow_nested_config_override=allow_nested_config_override)


class NestedConfigWarning(UserWarning):
    """Warning of a kernel that is inlined under the configuration of its caller."""


class Configs(NamedTuple):
    """The configurations of a kernel; None for one that its decorator does not give."""

    compile_config: CompileConfig | None
    specialization_config: SpecializationConfig | None

    @property
    def may_spill(self) -> bool:
        """False if an exceeded SBUF or PSUM is an error."""
        return self.compile_config is None or self.compile_config.nki_alloc_fallback

    @property
    def allows_override(self) -> bool:
        """True if kernels that it calls may have another configuration."""
        configuration = self.specialization_config
        return configuration is not None and configuration.allow_nested_config_override


class _LaunchedKernel(NamedTuple):
    """The kernel that is launched: its name and its configurations."""

    title: str
    configs: Configs


_launched_kernel: ContextVar[_LaunchedKernel | None] = ContextVar("trnsim_launched", default=None)


def configs_of(options: Mapping[str, Any]) -> Configs:
    """The configurations among the options of `nki.jit`.

    Raises:
        BadInput: for values of other types, and for options that `nki.jit` does not have.
    """
    kinds = {"compile_config": CompileConfig, "specialization_config": SpecializationConfig}
    for key, kind in kinds.items():
        value = options.get(key)
        if value is not None and not isinstance(value, kind):
            raise BadInput(
                f"nki.jit({key}={value!r}); legal: a {kind.__name__}",
                fix=f"pass nki.compiler.{kind.__name__}(...)",
                source=_JIT,
            )
    other_options = {key: value for key, value in options.items() if key not in kinds}
    _refuse_unknown(_JIT, other_options, [*kinds, *_OLDER_OPTIONS], legal=list(kinds))
    return Configs(options.get("compile_config"), options.get("specialization_config"))


def launch_context(
    title: str, configs: Configs, line: SourceLine | None
) -> AbstractContextManager[None]:
    """Context of a launched kernel's run on one core, against which `check_nested` compares.

    Raises:
        IllegalInstruction: for a configuration under a version of NKI that has none.
    """
    for key, value in zip(configs._fields, configs, strict=True):
        if value is not None and not follows(CONFIGS[key]):
            refusal = CONFIGS[key].refusal(running_version(), f"nki.jit({key}=...)")
            refusal.line = line
            raise refusal
    return context_value(_launched_kernel, _LaunchedKernel(title, configs))


def check_nested(title: str, configs: Configs) -> None:
    """Check the configuration of a kernel that another kernel calls, and so inlines.

    Its `compile_config` must equal that of the launched kernel, or be None.

    Raises:
        BadInput: if they differ, unless the launched kernel allows it; then a warning.
    """
    caller, config = _launched_kernel.get(), configs.compile_config
    if caller is None or config is None:
        return
    launched_config = caller.configs.compile_config or CompileConfig()
    different_fields = [
        field.name
        for field in fields(config)
        if getattr(config, field.name) != getattr(launched_config, field.name)
    ]
    if not different_fields:
        return
    text = " and ".join(
        f"{name}={_option_text(getattr(config, name))} where {caller.title} has "
        f"{_option_text(getattr(launched_config, name))}"
        for name in different_fields
    )
    reason = f"{caller.title} calls the kernel {title}, whose compile_config has {text}"
    fix = f"give both the same CompileConfig, or {title} none"
    if caller.configs.allows_override:
        warn(
            f"{reason}: it is inlined under that of {caller.title}\n  fix: {fix}\n  source: {_JIT}",
            NestedConfigWarning,
        )
        return
    raise BadInput(
        f"{reason}; legal: equal configurations, as the kernel is inlined",
        fix=f"{fix}; or launch with SpecializationConfig(allow_nested_config_override=True), which "
        "warns",
        source=_JIT,
    )


def _set_fields(config: object, **values: Any) -> None:
    """Set the fields of a frozen configuration.

    Raises:
        BadInput: for a value of another type.
    """
    name = type(config).__name__
    for key, value in values.items():
        is_rotation = key == "address_rotation"
        legal = "a member of nki.compiler.AddressRotation" if is_rotation else "True or False"
        default = getattr(type(config), key)
        is_legal = isinstance(value, AddressRotation if is_rotation else bool)
        if not is_legal and not (value is None and default is None):
            raise BadInput(
                f"{name}({key}={value!r}); legal: {legal}",
                fix=f"pass {'AddressRotation.DISABLE' if is_rotation else 'one of them'}",
                source=f"nki.compiler.{name}",
            )
        object.__setattr__(config, key, value)


def _refuse_unknown(
    call: str, options: Mapping[str, Any], option_names: list[str], legal: list[str] | None = None
) -> None:
    """Refuse the first of `options` whose name is not in `option_names`.

    Raises:
        BadInput: names the option, the legal names, and the class of the option or a similar name.
    """
    unknown_option = next((key for key in options if key not in option_names), None)
    if unknown_option is None:
        return
    config_fixes = [
        f"pass it as {parameter}=nki.compiler.{kind.__name__}({unknown_option}=...)"
        for parameter, kind in (
            ("compile_config", CompileConfig),
            ("specialization_config", SpecializationConfig),
        )
        if unknown_option in {field.name for field in fields(kind)}
    ]
    spelling_fixes = [
        f"did you mean {name}=?" for name in get_close_matches(unknown_option, option_names, 1)
    ]
    raise BadInput(
        f"{call}({unknown_option}={options[unknown_option]!r}): there is no such option; legal: "
        f"{', '.join(legal or option_names)}",
        fix=(config_fixes or spelling_fixes or ["leave it out"])[0],
        source=_JIT if call == _JIT else f"nki.compiler.{call}",
    )


def _option_text(value: object) -> str:
    """A value of an option in words."""
    return "the default" if value is None else str(value)
