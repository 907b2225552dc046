"""The shelf of statistics: numpy only, and every random draw from a generator that is passed in."""
