"""`nki.builtin`: the builtins of kernels under AWS's parser frontend; here Python's own."""
