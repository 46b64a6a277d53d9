"""A proxy before an HTTP server that breaks some of what passes, in either direction."""

import contextlib
import random
import socket
import socketserver
import threading
import time
from collections import Counter

ANSWER = b"HTTP/1.1 %d Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
REQUESTS = {b"GET", b"PUT", b"POST", b"HEAD", b"DELETE"}
BODY = 400  # an answer of more bytes than that has a body worth breaking
LINGER = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, 0 seconds: closing resets the connection


class Proxy(socketserver.ThreadingTCPServer):
    """Stands before an HTTP server and breaks some of what passes.

    Shares, of requests: `answers_500` (500 or 503), `resets` (in the middle of the request). Of answers:
    `resets_bodies` (in the middle of the body), `cuts_bodies` (the body ends early, the connection in order).
    Nothing is broken where the request's first line lacks `only`.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, target):
        self.target = target
        self.answers_500 = self.resets = self.resets_bodies = self.cuts_bodies = 0.0
        self.refuses_until = 0.0
        self.only = b""
        self.broken = Counter()
        self.chance = random.Random(3)
        super().__init__(("127.0.0.1", 0), Connection)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def breaks(self, how, request=b""):
        """Say whether to break this one so, and count it."""
        share = getattr(self, how)
        is_broken = share > 0 and self.only in request and self.chance.random() < share
        self.broken[how] += is_broken
        return is_broken


class Connection(socketserver.BaseRequestHandler):
    """Passes bytes on, or does not."""

    def handle(self):
        proxy = self.server
        self.asked = b""
        if time.monotonic() < proxy.refuses_until:
            proxy.broken["refused"] += 1
            self.reset()
            return
        with socket.create_connection(("127.0.0.1", proxy.target)) as beyond:
            threading.Thread(target=self.pass_answers, args=(beyond,), daemon=True).start()
            with contextlib.suppress(OSError):  # the answer's side has ended it
                self.pass_requests(beyond)

    def pass_requests(self, beyond):
        proxy = self.server
        while data := self.request.recv(1 << 16):
            is_request = data.split(b" ", 1)[0] in REQUESTS
            if is_request:
                self.asked = data.partition(b"\r\n")[0]
            if is_request and proxy.breaks("answers_500", self.asked):
                self.request.sendall(ANSWER % proxy.chance.choice((500, 503)))
                return
            if is_request and proxy.breaks("resets", self.asked):
                beyond.sendall(data[: len(data) // 2])
                self.reset()
                return
            beyond.sendall(data)

    def pass_answers(self, beyond):
        proxy = self.server
        with contextlib.suppress(OSError):
            while data := beyond.recv(1 << 16):
                is_asked_for = self.asked[:3] in {b"GET", b""}  # nothing where it is all in cipher
                has_body = is_asked_for and len(data.rpartition(b"\r\n\r\n")[2]) > BODY
                if has_body and proxy.breaks("resets_bodies", self.asked):
                    self.request.sendall(data[: -BODY // 2])
                    self.reset()
                    return
                if has_body and proxy.breaks("cuts_bodies", self.asked):
                    self.request.sendall(data[: -BODY // 2])
                    self.request.shutdown(socket.SHUT_RDWR)
                    return
                self.request.sendall(data)

    def reset(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        with contextlib.suppress(OSError):
            self.request.shutdown(
                socket.SHUT_RD
            )  # wakes the thread that waits for requests, which holds it open
        self.request.close()
