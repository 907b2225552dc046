"""Sweeps: a grid of tasks, algorithms and seeds, carried out run by run, on this machine or on a cluster.

`grid` says what is wanted, `jobs` what there is to do, `record` what came of it, `schedule` what comes next; `local`
and `on_ray` are the executors, `work` is what a worker does, `memory` and `estimate` say what a run will take, `status`
what is shown of it all.
"""
