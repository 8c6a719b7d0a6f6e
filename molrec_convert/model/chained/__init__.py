"""Several trajectories in a row as one."""
