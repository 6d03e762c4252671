"""The model of a program's source: its files, their scopes, what names in them stand for. Nothing of it runs."""
