"""Data sets: where they come from, how their rows become examples, and what of them is kept on this machine."""
