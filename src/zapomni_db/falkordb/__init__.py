"""FalkorDB: the server engine."""
