"""trnsim: a Trainium you can pip install.

    import trnsim
    result = trnsim.run(kernel, a, b, target="trn2")
    result.outputs, result.total_time_s, result.summary

`import trnsim` loads neither torch nor jax.
"""

from trnsim.run import Run, run

__version__ = "0.1.0"
__all__ = ["Run", "__version__", "run"]
