import pytest

from trnsim import arch
from trnsim.compiler import Flags
from trnsim.compiler.ncc.call_checks import call_refusals
from trnsim.compiler.ncc.calls import CallTensor, CompileTarget, FrameworkCall

STRICT = Flags(implicit_integer_downcast=())


def of(dtype, *shape):
    return CallTensor(shape or (4,), dtype)


def call(name, gives="float32", reason="", operator="", **arguments):
    results = (of(gives),) if gives else ()
    return FrameworkCall(operator or f"aten::{name}", name, arguments, results, None, reason)


def codes(one, flags=Flags(), target="trn2"):  # noqa: B008  frozen
    return [code for code, _ in call_refusals(one, CompileTarget(arch.target(target), flags))]


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("float32", []),
        ("int64", []),
        ("uint64", []),
        ("float8_e4m3fn", []),
        ("complex64", ["NCC_EVRF004"]),
        ("complex128", ["NCC_EVRF004"]),
        ("float8_e4m3fnuz", ["NCC_EVRF005"]),
        ("float8_e5m2fnuz", ["NCC_EVRF005"]),
        ("float8_e8m0fnu", ["NCC_ESPP047"]),
        ("float64", ["NCC_ESPP004"]),
        ("float4_e2m1fn_x2", ["NCC_ESPP004"]),
    ],
)
def test_a_type_that_no_core_has_is_refused_where_it_is_read_and_where_it_is_made(dtype, wanted):
    assert codes(call("negative", self=of(dtype))) == wanted
    assert codes(call("_to_copy", gives=dtype, self=of("float32"))) == wanted
    assert codes(call("cat", tensors=[of("float32"), of(dtype)])) == wanted


def test_the_first_type_that_holds_is_said_with_what_is_given_and_made():
    one = call("view_as_complex", gives="complex128", self=of("float64", 4, 2))
    ((code, what),) = call_refusals(one, CompileTarget(arch.target("trn2"), Flags()))
    assert (code, what) == (
        "NCC_EVRF004",
        "aten::view_as_complex on float64[4, 2] gives complex128[4]",
    )


@pytest.mark.parametrize(
    ("dtype", "value", "is_refused"),
    [
        ("uint64", 2**32, 1),
        ("uint64", 2**32 - 1, 0),
        ("uint64", True, 0),
        ("int64", 2**32, 0),
        ("uint32", 2**32, 0),
    ],
)
def test_a_constant_of_64_bits_fits_in_32(dtype, value, is_refused):
    one = call("full", gives=dtype, size=[4], fill_value=value)
    assert codes(one) == ["NCC_ESFH002"] * is_refused


def test_a_tensor_without_a_size_is_refused():
    one = FrameworkCall(
        "aten::nonzero", "nonzero", {"self": of("float32")}, (CallTensor((None, 1), "int64"),)
    )
    ((code, what),) = call_refusals(one, CompileTarget(arch.target("trn2"), Flags()))
    assert (code, what) == ("NCC_EMOD025", "aten::nonzero on float32[4]")
    assert str(one.results[0]) == "int64[?, 1]"


@pytest.mark.parametrize(
    ("name", "transposed", "mask", "is_gapped"),
    [
        ("convolution", False, None, False),
        ("convolution", True, None, True),
        ("convolution_overrideable", True, None, True),
        ("convolution_backward", False, [True, True, False], True),
        ("convolution_backward", False, [False, True, True], False),
        ("convolution_backward", True, [True, True, True], False),
    ],
)
@pytest.mark.parametrize("stride", [[1], [2, 2], [1, 2]])
@pytest.mark.parametrize("dilation", [[1, 1], [1, 3]])
def test_strides_that_are_gaps_do_not_go_with_dilation(
    name, transposed, mask, is_gapped, stride, dilation
):
    one = call(name, stride=stride, dilation=dilation, transposed=transposed, output_mask=mask)
    is_refused = is_gapped and max(stride) > 1 and max(dilation) > 1
    assert codes(one) == ["NCC_EVRF010"] * is_refused


@pytest.mark.parametrize(
    ("name", "dtype", "is_refused"),
    [
        ("topk", "int32", 1),
        ("topk", "int64", 1),
        ("topk", "int16", 0),
        ("topk", "float32", 0),
        ("sort", "int64", 0),
    ],
)
def test_topk_takes_no_wide_integers(name, dtype, is_refused):
    assert codes(call(name, self=of(dtype), k=2)) == ["NCC_EVRF013"] * is_refused


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("scatter_reduce", {"reduce": "sum"}),
        ("scatter_add", {}),
        ("index_add", {"alpha": 1}),
        ("scatter", {"reduce": "add"}),
        ("index_put", {"accumulate": True}),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "bool", "float32"])
def test_a_scatter_that_combines_is_of_floating_point(name, options, dtype):
    one = call(name, gives=dtype, self=of(dtype), index=of("int64"), **options)
    is_wide = dtype in ("int64", "int32")
    is_always = dtype in ("int16", "bool") or (name == "scatter_reduce" and is_wide)
    assert codes(one) == ["NCC_EVRF016"] * is_always
    strictly = ["NCC_EVRF060"] * (is_wide and name != "scatter_reduce")
    assert codes(one, STRICT) == ["NCC_EVRF016"] * is_always + strictly


@pytest.mark.parametrize(
    ("name", "options"),
    [("scatter", {}), ("scatter", {"reduce": None}), ("index_put", {"accumulate": False})],
)
def test_a_scatter_that_assigns_takes_any_type(name, options):
    one = call(name, gives="int32", self=of("int32"), index=of("int64"), **options)
    assert codes(one, STRICT) == []


@pytest.mark.parametrize("name", ["max_pool2d", "max_pool2d_with_indices", "max_pool1d"])
@pytest.mark.parametrize(
    ("dilation", "is_refused"), [(1, 0), ([1, 1], 0), ([], 0), (None, 0), ([1, 2], 1), (2, 1)]
)
def test_a_pooling_is_not_dilated(name, dilation, is_refused):
    one = call(name, self=of("float32", 1, 1, 8, 8), dilation=dilation)
    assert codes(one) == ["NCC_EVRF018"] * is_refused


@pytest.mark.parametrize(
    ("name", "dtype", "is_refused"),
    [
        ("bitwise_right_shift", "int16", 1),
        ("__rshift__", "int8", 1),
        ("bitwise_right_shift", "int32", 0),
        ("bitwise_right_shift", "int64", 0),
        ("bitwise_right_shift", "uint8", 0),
        ("bitwise_left_shift", "int16", 0),
    ],
)
def test_an_arithmetic_shift_to_the_right_is_of_32_bits(name, dtype, is_refused):
    one = call(name, gives=dtype, self=of(dtype), other=of("int16"))
    assert codes(one) == ["NCC_EVRF022"] * is_refused


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "linear"])
@pytest.mark.parametrize(
    ("dtype", "target", "flags", "is_refused"),
    [
        ("int32", "trn2", Flags(), 0),
        ("int32", "trn2", STRICT, 1),
        ("int32", "trn3", STRICT, 1),
        ("int32", "trn1", STRICT, 0),
        ("int64", "trn1", STRICT, 1),
        ("int64", "trn2", Flags(implicit_integer_downcast=("dot",)), 0),
        ("int64", "trn2", Flags(implicit_integer_downcast=("pow",)), 1),
        ("int8", "trn2", STRICT, 0),
        ("float32", "trn2", STRICT, 0),
    ],
)
def test_a_product_of_wide_integers_is_as_the_chip_and_the_flag_permit(
    name, dtype, target, flags, is_refused
):
    one = call(name, gives=dtype, self=of(dtype, 4, 4), mat2=of(dtype, 4, 4))
    assert codes(one, flags, target) == ["NCC_EVRF035"] * is_refused


@pytest.mark.parametrize(
    ("gives", "flags", "is_refused"),
    [
        ("int64", STRICT, 1),
        ("int64", Flags(), 0),
        ("int32", STRICT, 0),
        ("float32", STRICT, 0),
    ],
)
def test_a_power_of_64_bit_integers_is_as_the_flag_permits(gives, flags, is_refused):
    one = call("pow", gives=gives, self=of(gives), exponent=of("int64"))
    assert codes(one, flags) == ["NCC_EVRF062"] * is_refused


@pytest.mark.parametrize(
    ("name", "flag", "code"),
    [
        ("all_reduce", "all_reduce", "NCC_EVRF061"),
        ("all_reduce_coalesced", "all_reduce", "NCC_EVRF061"),
        ("reduce_scatter_tensor", "reduce_scatter", "NCC_EVRF063"),
        ("all_gather_into_tensor", "all_reduce", ""),
    ],
)
def test_collectives_add_integers_as_a_flag_permits(name, flag, code):
    def one(dtype, reason=""):
        operator = f"_c10d_functional::{name}"
        return call(name, dtype, reason, operator, input=of(dtype), reduceOp="sum")

    assert codes(one("int64"), STRICT) == [code] * bool(code)
    assert codes(one("int64"), Flags(implicit_integer_downcast=(flag,))) == []
    assert codes(one("int64")) == codes(one("bfloat16"), STRICT) == []


def test_an_operator_without_a_lowering_is_refused_for_that_alone_where_nothing_else_holds():
    one = call("linalg_eig", reason="there is no lowering of it", self=of("float32", 4, 4))
    ((code, what),) = call_refusals(one, CompileTarget(arch.target("trn2"), Flags()))
    assert code == "NCC_EVRF001"
    assert what == "aten::linalg_eig on float32[4, 4]: there is no lowering of it"
    typed = call("linalg_eig", gives="complex64", reason="none", self=of("float32", 4, 4))
    assert codes(typed) == ["NCC_EVRF004"]
    assert codes(call("topk", reason="none", self=of("int32"), k=1)) == ["NCC_EVRF013"]


def test_a_call_without_tensors_is_its_operator():
    assert call("arange", end=4).on() == "aten::arange"
