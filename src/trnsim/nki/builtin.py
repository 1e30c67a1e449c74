"""`nki.builtin`: what AWS's parser frontend gives kernels as builtins; here Python's own."""
