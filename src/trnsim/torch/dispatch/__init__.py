"""One call of an operator on the device: its values, its memory, its record."""
