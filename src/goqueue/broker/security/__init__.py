"""Who asks, and whether it may: what the metadata says about it, and how logins are checked."""
