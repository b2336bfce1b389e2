"""Texts without the folders of the machine where a model was made: its card is read elsewhere."""

import re
from typing import Any

SEPARATORS = r"""\s,:='"()\[\]"""
# The folders of a path that is absolute or begins with ~ or ..; paths below the working directory and URLs are kept.
FOLDERS = re.compile(
    rf"(?<![^{SEPARATORS}])(?:~[^{SEPARATORS}/]*/|(?:\.\./)+|/(?!/))(?:[^{SEPARATORS}/]*/)*(?=[^{SEPARATORS}/])"
)


def without_folders(text: str) -> str:
    """A text whose paths outside the working directory are reduced to their last component.

    >>> without_folders("harp train --config=tpu_v3 --workdir=/data/me/run --config.data=/a/b,gs://bucket/c")
    'harp train --config=tpu_v3 --workdir=run --config.data=b,gs://bucket/c'
    """
    return FOLDERS.sub("", text)


def portable(value: Any) -> Any:
    """A value of JSON with `without_folders` applied to every string in it."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, dict):
        return {key: portable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [portable(one) for one in value]
    return value
