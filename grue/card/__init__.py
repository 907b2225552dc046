"""The card of a task: whether it can be learnt or hacked, before anything is trained."""
