"""Predictions of a system, and their scores."""
