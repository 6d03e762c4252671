"""What `mpls trace` and its recorder for old machines record."""
