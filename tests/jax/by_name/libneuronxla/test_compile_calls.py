import jax
import jax.numpy as jnp
import pytest

from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.compiler.stand_in import parse_program
from trnsim.device.fallback_policy import state
from trnsim.errors import BadInput, NotModelled
from trnsim.jax.by_name.libneuronxla.compile_calls import (
    neuron_xla_compile,
    neuron_xla_wlo_compile,
)

FLAGS = "--model-type=transformer -O1 --auto-cast=none --logfile=x.txt"


@pytest.fixture(scope="module")
def module():
    lowered = jax.jit(lambda a: jnp.tanh(a) * 2).lower(jnp.ones((8, 16)))
    return lowered.as_text().encode()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    for name in ("NEURON_CC_FLAGS", "NEURON_EXTRACT_GRAPHS_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    return tmp_path / "cache"


def programs(cache):
    return sorted(cache.rglob("model.neff"))


def test_a_graphs_bytes_give_a_program_and_stand_in_the_cache(module, cache, capsys):
    content = neuron_xla_compile(module, FLAGS, input_format="hlo", platform_target="trn1")
    stored = parse_program(content, "x")
    assert stored.target == "trn1"
    assert stored.flags[2:] == ("--model-type=transformer", "--optlevel=1", "--auto-cast=none")
    assert [path.read_bytes() for path in programs(cache)] == [content]
    assert neuron_xla_compile(module, FLAGS.split(), platform_target="trn1") == content
    assert "Using a cached neff at" in capsys.readouterr().err
    assert neuron_xla_wlo_compile(module, FLAGS, platform_target="trn1") == (content, None)


def test_a_key_of_the_callers_names_the_entry(module, cache):
    neuron_xla_compile(module, FLAGS, platform_target="trn1", cache_key="12ab")
    assert programs(cache)[0].parent.name.startswith("MODULE_12ab+")
    with pytest.raises(BadInput, match=r"cache_key='\.\./x'"):
        neuron_xla_compile(module, FLAGS, platform_target="trn1", cache_key="../x")


def test_without_the_cache_only_the_work_folder_is_written(module, cache, tmp_path):
    content = neuron_xla_compile(
        module,
        FLAGS,
        platform_target="trn1",
        use_cache=False,
        work_dir=tmp_path / "work",
        create_subdir=False,
    )
    assert not cache.exists()
    assert (tmp_path / "work" / "model.neff").read_bytes() == content
    assert (tmp_path / "work" / "model.hlo_module.pb").read_bytes() == module
    assert " on trn1\n" in (tmp_path / "work" / "report.txt").read_text()


def test_extraction_stores_the_graph_alone(module, cache, monkeypatch):
    monkeypatch.setenv("NEURON_EXTRACT_GRAPHS_ONLY", "1")
    assert neuron_xla_compile(module, FLAGS, platform_target="trn1") == b""
    assert programs(cache) == []
    assert [path.read_bytes() for path in cache.rglob("model.hlo_module.pb")] == [module]


@pytest.mark.parametrize("first", ["chip", "host"])
def test_a_graph_that_one_policy_refuses_is_another_under_the_other(monkeypatch, first):
    def summed(a):
        return jax.lax.reduce_window(a, 0.0, jax.lax.add, (2,), (1,), "VALID", None, (3,))

    graph = jax.jit(summed).lower(jnp.ones(16)).as_text().encode()
    for policy in (first, "host", "chip", "host"):
        monkeypatch.setattr(state, "policy", policy)
        if policy == "host":
            assert neuron_xla_compile(graph, FLAGS, platform_target="trn2")
            continue
        with pytest.raises(CompilerRefusal, match="NCC_EVRF018"):
            neuron_xla_compile(graph, FLAGS, platform_target="trn2")


def test_a_failure_is_tried_again_where_that_is_asked_for():
    for _ in range(2):
        with pytest.raises(BadInput):
            neuron_xla_compile(b"rubbish", FLAGS, platform_target="trn1")
    with pytest.raises(BadInput, match="Got a cached failed neff"):
        neuron_xla_compile(b"rubbish", FLAGS, platform_target="trn1")
    with pytest.raises(BadInput, match="is no program of StableHLO"):
        neuron_xla_compile(b"rubbish", FLAGS, platform_target="trn1", retry_failed_compilation=True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"input_format": "neff"}, BadInput, "input_format='neff'; legal: hlo, stablehlo"),
        ({"module_bytes": "abc"}, BadInput, "module_bytes is a str; legal: bytes"),
        ({"module_bytes": 5}, BadInput, "module_bytes is a int; legal: bytes"),
        ({"platform_target": "inf1"}, NotModelled, "platform_target='inf1' is not emulated"),
        ({"platform_target": "gpu"}, BadInput, "target 'gpu' is not known"),
        ({"compiler_flags": "--auto-cats"}, BadInput, "--auto-cats is no flag of neuronx-cc"),
        ({"cache_dir": "s3://b"}, NotModelled, "no cache of trnsim is in S3"),
    ],
)
def test_what_is_asked_wrong_is_refused(module, settings, error, message):
    with pytest.raises(error, match=message):
        neuron_xla_compile(**({"module_bytes": module, "platform_target": "trn1"} | settings))
