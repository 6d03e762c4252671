"""Each statement and each example of the documented pages, a file for each page."""
