"""Says, after the error that a program ends in, which option would have cured it, where that is certain."""
