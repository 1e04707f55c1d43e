"""HTTP in a cluster: which node a request belongs to, and how it is carried out there."""
