"""A graph as instructions: layouts, products, chains of elementwise operations, attention."""
