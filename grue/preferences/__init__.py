"""Learned preferences: pairs of texts of which one is better, and reward models that learn from them."""
