"""What is left of work that is interrupted: killed, refused by the disk, cut off from its power.

A process of its own (`child.py`) has the calls that alter files pass through `shim.c`. For each trial it forks, does a
piece of work (`workloads.py`) in a folder of its own, and judges what is there afterwards (`judging.py`): after a kill
before an operation or in the middle of a write, after a call that failed or a write that was short, or in the states
a disk may be in when its power went (`replay.py`). `Harness` is that process as tests and scripts see it.
"""
