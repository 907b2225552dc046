"""Systems whose outputs are published elsewhere."""
