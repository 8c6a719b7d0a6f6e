"""What a run yields beside its frames: metrics, events, observables."""
