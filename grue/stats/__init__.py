"""Statistics: numpy only, and every random draw comes from a generator that is passed in."""
