"""Where the work of a migration runs: processes of this machine, a Dask cluster."""
