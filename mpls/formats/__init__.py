"""What files and configs of every release hold: their names, forms and valid numbers. Imports no framework."""
