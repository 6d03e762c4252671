"""Model files from strangers: nothing in them runs, and nothing outside is touched."""
