"""The local web page: see, search, understand and correct what is remembered."""
