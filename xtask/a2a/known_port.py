"""A pytest plugin: servers that would listen on any free port listen on the one that TCK_WEBHOOK_PORT names.

The daemon calls only addresses that it was told of, and the kit's receiver of push notifications picks a free port
when it starts, which is too late to tell. Nothing of the kit itself is changed.
"""

import os
import socketserver

_bind = socketserver.TCPServer.server_bind


def _bind_known(self):
    host, port = self.server_address[:2]
    if port == 0:
        self.server_address = (host, int(os.environ["TCK_WEBHOOK_PORT"]))
    _bind(self)


socketserver.TCPServer.server_bind = _bind_known
