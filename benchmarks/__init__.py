"""What loss scaling costs: `python -m benchmarks`, from the root of the checkout."""
