"""Renderers: pure functions from a board to text."""
