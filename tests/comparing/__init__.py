"""What `mpls compare` says of two traces."""
