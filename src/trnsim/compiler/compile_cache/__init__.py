"""The persistent cache of compiled programs, with the layout of AWS's cache.

    FOLDER/neuronxcc-VERSION/MODULE_GRAPH+FLAGS/model.hlo_module.pb  the graph
                                                compile_flags.json   flags, a list of texts
                                                model.neff           the `stand_in` of a program
                                                model.done           once the program is whole
                                                model.log            why it does not compile
                                                model.hlo_module.pb.lock
                                                                     while a process compiles

The version is trnsim's own, so that AWS's compiler never reads a program that it did not write.
Files are written whole or not at all, and `model.done` is the last. A lock is a file lock of the
operating system, which ends with its process: a process that is killed leaves a cache that works.

Source: aws-neuron-sdk about-neuron/arch/neuron-features/neuron-caching.rst; the names of files:
archive/tutorials/multinode-training-model-profiling.rst, step 8; huggingface/optimum-neuron
optimum/neuron/cache/AGENTS.md, Local Compile Cache.
"""

from trnsim.compiler.compile_cache.cached_compilation import (
    CachedProgram,
    compile_cached,
    extract_graph,
)
from trnsim.compiler.compile_cache.entry import CacheEntry, CacheKey, EntryState
from trnsim.compiler.compile_cache.listing import entries
from trnsim.compiler.compile_cache.settings import CacheSettings, cache_settings, is_extracting

__all__ = [
    "CacheEntry",
    "CacheKey",
    "CacheSettings",
    "CachedProgram",
    "EntryState",
    "cache_settings",
    "compile_cached",
    "entries",
    "extract_graph",
    "is_extracting",
]
