"""What is written to files and configs, by every release: names, forms and valid numbers. Imports no framework."""
