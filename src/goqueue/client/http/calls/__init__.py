"""What each call sends, and how its answer is read; shared by both clients."""
