"""Plots: learning curves off the runs' logs, and preference against naturalness off a board.

`curves` and `tradeoff` read what is to be drawn, with notes on what was left out; `labels` finds places for names;
`drawing` draws it all to a file, and alone needs matplotlib.
"""
