"""Packages of the Neuron SDK besides `nki`, each in a fresh process as a suite imports it."""

import forked
import pytest


def python(program):
    """What `program` prints, by words."""
    return forked.python(program, "-W", "error", kind="nki", check=True).stdout.split()


def test_neuron_dtypes_casts_as_the_chip_does():
    assert python(
        "import neuron_dtypes as dt, numpy as np, trnsim.nki.language as nl\n"
        "print(dt.bfloat16 is nl.bfloat16, dt.float8_e4m3 is nl.float8_e4m3)\n"
        "print(dt.static_cast(np.float32([0.5, 1.5, 300, -7]), np.uint8).tolist())\n"
        "print(dt.static_cast(np.array([2**31 - 1]), np.int32).tolist())\n"
        "print(dt.static_cast(np.float32([1 + 2**-8, 1 + 3 * 2**-8]), 'bfloat16').tolist())"
    ) == ["True", "True", "[0,", "2,", "255,", "0]", "[2147483647]", "[1.0,", "1.015625]"]


def test_neuron_dtypes_casts_from_narrow_formats_too():
    assert python(
        "import neuron_dtypes as dt, numpy as np, ml_dtypes\n"
        "narrow = np.array([1.5, -2.5, 240], ml_dtypes.bfloat16)\n"
        "print(*dt.static_cast(narrow, np.int8).tolist(), dt.static_cast(narrow, 'float32').dtype)"
    ) == ["2", "-2", "127", "float32"]


def test_neuron_dtypes_packs_four_elements_in_one_and_takes_them_apart():
    assert python(
        "import neuron_dtypes as dt, numpy as np\n"
        "values = np.float32([[1, -2, 3, 0.5, 6, 0, 1, 4]])\n"
        "for kind in (dt.float8_e5m2_x4, dt.float8_e4m3fn_x4, dt.float4_e2m1fn_x4):\n"
        "    packed = dt.static_cast(values, kind)\n"
        "    back = dt.static_cast(packed, np.float32)\n"
        "    print(packed.shape[-1], packed.itemsize, (back == values).all())"
    ) == ["2", "4", "True", "2", "4", "True", "2", "2", "True"]


def test_neuron_dtypes_knows_sizes_kinds_and_ranges():
    assert python(
        "import neuron_dtypes as dt, numpy as np\n"
        "print(*map(dt.sizeinbytes, (np.float32, 'bfloat16', dt.float8_e4m3, dt.int16)))\n"
        "print(*map(dt.is_float_type, (np.float32, 'bfloat16', dt.float8_e5m2, dt.int16)))\n"
        "print(float(dt.finfo('bfloat16').eps), float(dt.finfo(np.float32).max) == "
        "float(np.finfo(np.float32).max))"
    ) == ["4", "2", "1", "2", "True", "True", "True", "False", "0.0078125", "True"]


def test_nki_cpu_simulator_has_the_very_modules_of_nki():
    assert (
        python(
            "import nki_cpu_simulator.nki.language as nl, nki_cpu_simulator.nki.isa as nisa, nki\n"
            "import nki_cpu_simulator.nki.isa.constants as constants\n"
            "from nki_cpu_simulator.nki.language.dtypes import bfloat16\n"
            "from nki_cpu_simulator.nki.tensor import NkiTensor\n"
            "import nki_cpu_simulator.nki.builtin, nki_cpu_simulator.nki.typing as nt\n"
            "import nki_cpu_simulator.nki.compiler\n"
            "print(nl is nki.language, nisa is nki.isa, constants.engine is nki.isa.engine,\n"
            "      bfloat16 is nl.bfloat16, NkiTensor is nki.NkiTensor, nt is nki.typing)"
        )
        == ["True"] * 6
    )


def test_neuronxcc_has_the_names_that_newer_code_still_uses():
    assert python(
        "import neuronxcc.nki.typing as nt, nki.typing\n"
        "from neuronxcc.starfish.support.dtype import finfo, is_float_type, static_cast\n"
        "from neuronxcc.starfish.support.util import allclose\n"
        "import neuron_dtypes\n"
        "print(nt.tensor is nki.typing.tensor, static_cast is neuron_dtypes.static_cast)"
    ) == ["True", "True"]


def test_neuronxccs_allclose_compares_in_float64():
    assert python(
        "from neuronxcc.starfish.support.util import allclose\n"
        "import numpy as np, ml_dtypes\n"
        "one, nan = np.ones(3, ml_dtypes.bfloat16), np.array([np.nan])\n"
        "print(allclose(one, one + 0), allclose(one, 1.1 * np.ones(3)),\n"
        "      allclose(one, 1.1 * np.ones(3), atol=0.2),\n"
        "      allclose(one, 1.1 * np.ones(3), rtol=0.1),\n"
        "      allclose(nan, nan), allclose(nan, nan, equal_nan=True))"
    ) == ["True", "False", "True", "True", "False", "True"]


def test_a_library_that_can_do_without_the_older_generation_goes_on():
    assert python(
        "for statement in ('import neuronxcc.nki.language', 'from neuronxcc.nki.isa import add'):\n"
        "    try: exec(statement)\n"
        "    except ModuleNotFoundError as error: print('fix: ' in str(error))"
    ) == ["True", "True"]


def test_the_older_generation_says_that_it_is_not_emulated():
    assert python(
        "import neuronxcc.nki as nki\n"
        "for statement in ('nki.jit', 'from neuronxcc.nki import jit'):\n"
        "    try: exec(statement)\n"
        "    except (AttributeError, ImportError) as error:\n"
        "        print(type(error).__name__, 'neuronxcc.nki.jit' in str(error))\n"
        "print(hasattr(nki, 'jit'), hasattr(nki, '__wrapped__'))"
    ) == ["AbsentAttribute", "True", "RefusedImport", "True", "False", "False"]


@pytest.mark.parametrize(
    "missing", ["neuronxcc.nothing", "nki_cpu_simulator.nothing", "neuron_dtypes.nothing"]
)
def test_what_no_package_has_is_not_found(missing):
    package = missing.partition(".")[0]
    assert python(
        f"import {package}\n"
        f"try: import {missing}\n"
        "except ModuleNotFoundError as error: print(error.name)"
    ) == [missing]
