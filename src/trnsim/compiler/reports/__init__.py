"""Contents of a report on a compiled program: modules, patterns, instructions, crowding."""
