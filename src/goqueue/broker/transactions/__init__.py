"""The transaction coordinator and the completion of transactions."""
