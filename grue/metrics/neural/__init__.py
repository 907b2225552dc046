"""What metrics that use a model load when they are made: everything here imports torch."""
