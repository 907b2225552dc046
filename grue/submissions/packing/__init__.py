"""Packing runs, or predictions made elsewhere, into a submission."""
