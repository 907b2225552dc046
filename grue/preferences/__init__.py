"""Learned preferences: pairs of a better and a worse text, and reward models that learn from them."""
