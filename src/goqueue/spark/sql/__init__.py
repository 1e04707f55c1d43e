"""Topics as tables of SQL queries."""
