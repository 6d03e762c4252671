"""What restores and saves the state of loss scales: object checkpoints, savers of TF 1, dicts."""
