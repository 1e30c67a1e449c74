"""What the compiler does to a graph before its instructions are issued."""
