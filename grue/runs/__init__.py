"""A run's life: from a request to a finished folder."""
