"""Sweeps: a grid of tasks, algorithms and seeds, executed run by run, on this machine or on a cluster.

`grid` reads the request and `jobs` plans its runs; `schedule` starts them and `record` logs their outcomes; `local` and
`on_ray` are the executors, `work` is a worker's job; `estimate` predicts how long they take.
"""
