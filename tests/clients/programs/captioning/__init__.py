"""What package_trainer.py is made of."""
