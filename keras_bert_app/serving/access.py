"""Checks of requests: the hosts that requests may name, and the pages that may send them.

A page of another site can make a browser send requests to a server on localhost. The owner of the page can also make
the page's host name lead to 127.0.0.1. The browser then lets the page read the answers (DNS rebinding). The headers
Host, Origin and Sec-Fetch-Site of a request name the page that sent it.
"""

import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Iterable

from aiohttp import HttpVersion11, web

from keras_bert_app.serving.request_errors import RequestError, short

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^][:/@\s]+)(?::(?P<port>[0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


class Access:
    """The check of a request's headers.

    A request may name localhost, any IP address, the address that the server listens on, and the hosts of
    --allowed_hosts. IP addresses are safe, because nobody can make an address lead to another machine, as the owner of
    a name can. If other machines can reach the server, a request may also name this machine by its host name.

    Args:
        host: str. The address that the server listens on.
        allowed_hosts: iterable of str. Further names; "*" allows all of them.
    """

    def __init__(self, host: str, allowed_hosts: Iterable[str] = ()):
        self._allowed = {name.strip().lower().rstrip(".") for name in allowed_hosts} - {""}
        self._known = {"localhost", host.lower(), *self._allowed}
        if not is_loopback(host):
            self._known.add(socket.gethostname().lower())

    def check(self, request: web.Request) -> None:
        """Refuses a request that a page of another site may have sent.

        Args:
            request: web.Request. Only its headers are read.

        Raises:
            RequestError: 403 for a host, an origin or a site that is not allowed, 415 if the Content-Type is not JSON.
        """
        host = _named(request.headers.get("Host", ""))
        # Every browser names a host. A request of HTTP/1.0 without one comes from a program, such as a health check.
        is_old = request.version < HttpVersion11 and "Host" not in request.headers
        if not is_old and (host is None or not self._is_known(host[0])):
            raise RequestError(
                403,
                f"host {short(request.headers.get('Host', ''))} is not served here; expected localhost, an IP address "
                "or a name in --allowed_hosts",
            )
        self._check_origin(request, host)
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and not _opens_page(request):
            raise RequestError(403, "a page of another site sent this request; ask from the server's own page")
        if request.method == "POST" and request.content_type != "application/json":
            raise RequestError(
                415,
                f"the body has Content-Type {short(request.headers.get('Content-Type', ''))}; expected "
                "application/json (curl: -H 'Content-Type: application/json')",
            )

    def _is_known(self, name):
        return "*" in self._allowed or name in self._known or _is_address(name)

    def _check_origin(self, request, host):
        origin = request.headers.get("Origin")
        if origin is None:
            return
        scheme, _, rest = origin.partition("://")
        named = _named(rest)
        if scheme in _PORTS and named is not None and host is not None:
            ports = [port or _PORTS[scheme] for _, port in (named, host)]
            if named[0] in self._allowed or (named[0] == host[0] and ports[0] == ports[1]):
                return
        raise RequestError(
            403, f"origin {short(origin)} is another page than the server's own; name its host in --allowed_hosts"
        )


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address.

    Args:
        host: str. A name or an IP address to listen on.
    """
    name = host.strip("[]").lower()
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _named(authority):
    """Splits NAME or NAME:PORT. Returns (name in small letters, port or None), or None for another form."""
    match = _HOST.fullmatch(urllib.parse.unquote(authority))
    if match is None:
        return None
    return match["name"].strip("[]").lower().rstrip("."), match["port"] and int(match["port"])


def _is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _opens_page(request):
    """Returns whether a user followed a link to the server's page. The page with the link cannot read the answer."""
    headers = request.headers
    return (
        request.method == "GET"
        and request.path == "/"
        and (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")
    )
