"""What callbacks, hooks and summaries show of training."""
