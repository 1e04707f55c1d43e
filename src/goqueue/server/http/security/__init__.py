"""Who sends a request, and whether it may: before it reaches its handler, or another node."""
