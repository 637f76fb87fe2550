"""Starts LocalStack with two of its habits changed.

It binds every interface of the machine, whatever GATEWAY_LISTEN names ("TODO: interface = host?" in its
runtime/server/twisted.py): here it binds 127.0.0.1. And it outlives whoever started it: here it ends with that process.

The lock file names the exact version.
"""

import os
import threading
import time

from twisted.internet import endpoints


class LoopbackEndpoint(endpoints.TCP4ServerEndpoint):
    def __init__(self, reactor, port, backlog=50, interface="127.0.0.1"):
        super().__init__(reactor, port, backlog, interface or "127.0.0.1")


endpoints.TCP4ServerEndpoint = LoopbackEndpoint


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()

from localstack.runtime.main import main  # noqa: E402

main()
