"""The shelf of renderers: pure functions from a board to text."""
