"""`nki.builtin`: the builtins that AWS's parser frontend gives kernels; here Python's own."""
