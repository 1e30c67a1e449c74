"""An answer of a command as one object, and its writers: text, JSON, CSV and HTML."""
