"""A report as one HTML page: its data, its script, its template."""
