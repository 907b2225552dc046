"""Plots: learning curves from the runs' logs, the frontier, and preference against naturalness from a board.

`curves` and `tradeoff` collect the data, with notes on what was left out; `drawing` writes the
file and is the only one that needs matplotlib.
"""
