"""The metadata of this node: who decides it, and what is committed of it."""
