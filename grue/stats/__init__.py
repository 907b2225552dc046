"""Statistics: numpy, and scipy's special functions; every random draw comes from a generator that is passed in."""
