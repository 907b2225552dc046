"""The data sets, one file each.

A file's name is the data set's name. It defines `examples(rows)`, which turns rows into examples, and, where the data
set has an original layout on disk, `read_folder(folder, split)`, which finds a split's files there and reads its rows.
Both raise a DataError for what is not as they describe it, which names the row, or the file and its line.
"""
