"""Scripts for developers of GoQueue; no part of the package."""
