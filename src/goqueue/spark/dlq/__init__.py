"""Dead letters as a table, and jobs over them."""
