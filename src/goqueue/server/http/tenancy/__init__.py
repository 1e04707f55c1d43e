"""Names of a tenant's users in HTTP's requests and answers."""
