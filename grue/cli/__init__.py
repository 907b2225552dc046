"""The command line: parse, call one to three functions, print."""
