"""The listener for the other nodes of the cluster."""
