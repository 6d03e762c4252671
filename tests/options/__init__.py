"""What mpls has beyond the originals: bounds and dynamics, counters, skipped steps; in every family and mode."""
