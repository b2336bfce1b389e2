"""The one exception for bad input: what is wrong, where, and what to do about it."""


class InputError(Exception):
    """Input or usage that a person must mend; commands print it in one line and exit with status 2."""
