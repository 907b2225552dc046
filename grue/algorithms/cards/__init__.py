"""What can be set of each algorithm, a file each: names and values are checked without importing torch."""
