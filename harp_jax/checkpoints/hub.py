"""An export to a model repository of the Hugging Face Hub, and models from there."""

import os
import re

from harp_jax.base.errors import InputError, how_to_fetch

NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def check_repository(name: str) -> None:
    """InputError unless `name` is USER/NAME."""
    if not NAME.fullmatch(name):
        raise InputError(f"--push={name}: name the repository USER/NAME, as on huggingface.co")


# What a cross-encoder's directory needs here: parameters once, not in every framework's format.
PARTS = [
    "config.json",
    "*.safetensors",
    "tokenizer*",
    "vocab.txt",
    "special_tokens_map.json",
    "*sentence_*.json",
    "modules.json",
]


def fetched(name: str) -> str:
    """The directory of a model: `name` if it exists, else the Hub's model USER/NAME in the local cache, downloaded once.

    Raises InputError where there is neither, and where the Hub cannot be reached.
    """
    if os.path.exists(name) or not NAME.fullmatch(name):
        return name  # what reads it says what is missing
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    failures: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, ValueError)
    try:
        return huggingface_hub.snapshot_download(name.rstrip("/"), allow_patterns=PARTS)
    except failures as error:
        first = " ".join(str(error).strip().splitlines()[:1])
        raise InputError(
            f"{name} is no directory, and the Hub does not serve it ({first}){how_to_fetch(name)}"
        ) from error


def push(directory: str, name: str) -> str:
    """Uploads every file of an export to the repository USER/NAME, which is created (private) if it is absent.

    Returns what was done, in one text. Without a token nothing is uploaded: the text lists the files that would be and says how to
    log in. Raises InputError where the Hub refuses or cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    check_repository(name)
    files = _files(directory)
    total = sum(size for _, size in files) / 1e6
    if huggingface_hub.get_token() is None:
        listed = "\n".join(f"  {path}  {size / 1e6:.1f} MB" for path, size in files)
        return (
            f"no Hugging Face token: nothing was uploaded. {len(files)} files ({total:.1f} MB) would go to {name}:\n{listed}\n"
            "Log in with `hf auth login`, or set HF_TOKEN, and run the same command again."
        )
    # OSError, and the error of the Hub's HTTP library, whichever that is, for failed connections.
    failures: tuple[type[BaseException], ...] = HfHubHTTPError.__bases__
    try:
        api = huggingface_hub.HfApi()
        api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=directory, commit_message="Upload an export of harp_jax")
    except failures as error:
        first = str(error).strip().splitlines()[:1]
        raise InputError(
            f"cannot upload to {name}: {' '.join(first)}; check the name, the token's rights and the network. The export in "
            f"{directory} is complete"
        ) from error
    return f"uploaded {len(files)} files ({total:.1f} MB) to {name} (private if it is new)"


def _files(directory: str) -> list[tuple[str, int]]:
    """(path below the directory, bytes) of every file, sorted."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            found.append((os.path.relpath(path, directory), os.path.getsize(path)))
    return sorted(found)
