"""What a report says of a compiled program: modules, patterns, instructions, crowding."""
