"""Consumer groups: the coordinator, and the members that the broker reads for over HTTP."""
