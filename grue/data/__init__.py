"""Data sets: where they come from, how their rows become examples, and what of them is kept on this machine.

What cannot be found, read or written is a DataError in all these modules, which names the place and says what to do.
"""
