"""The folder `submissions/`: its shape, its checks, and how runs are packed into it."""
