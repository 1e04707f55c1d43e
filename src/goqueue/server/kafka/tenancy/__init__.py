"""Names of a tenant's clients: as they write them, and as they are inside."""
