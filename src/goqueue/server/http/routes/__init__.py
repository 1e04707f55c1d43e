"""A module for each family of HTTP calls."""
