"""What files hold of optimizers and their loss scales, whatever release and framework wrote them."""
