"""A decision for people: a page, its figures as JSON, its candidates as a table."""
