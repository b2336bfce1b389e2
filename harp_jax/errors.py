"""The one exception for bad input: what is wrong, where, and what to do about it."""


class InputError(Exception):
    """Bad input or usage that the user must fix; commands print it in one line and exit with status 2."""
