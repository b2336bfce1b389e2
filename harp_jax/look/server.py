"""Serves the application on the loopback interface until Ctrl-C."""

import socket
from typing import TYPE_CHECKING

from harp_jax.base.errors import InputError, needs

if TYPE_CHECKING:
    from starlette.applications import Starlette

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0: any free one. Raises InputError for a port that is taken."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port={port}: use 0 (any free port) to 65535")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise InputError(f"--port={port}: {error.strerror}; choose another, or 0 for any free one") from error
    return found


def serve(app: "Starlette", listening: socket.socket) -> None:
    """Answers requests until the process is interrupted."""
    with needs("the page", "uvicorn", "look"):
        import uvicorn
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])
