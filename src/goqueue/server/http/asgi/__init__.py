"""The HTTP listener itself: connections, limits, access, long polls, the application."""
