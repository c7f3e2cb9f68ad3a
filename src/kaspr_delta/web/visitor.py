"""The visitor of a page, and the checks that a form comes from this server's pages."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest

NEED_AN_IDENTITY = (
    "Nothing can be changed from here: the server has neither a token (KASPR_DELTA_TOKEN) nor a proxy that names"
    " the user (--behind-proxy). On the machine itself it can, at http://127.0.0.1."
)
NEED_A_USER = "Nothing can be changed from here: the proxy does not name the user."


@dataclass(frozen=True, slots=True)
class Visitor:
    """The requester of a page. ``root`` is a proxy's prefix of all paths; ``refused``: why they may change nothing.

    ``token``: their workspace token, if the proxy hands it on.
    """

    root: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    refused: str = NEED_AN_IDENTITY
    token: str = field(default="", repr=False)


@dataclass(frozen=True)
class Seals:
    """Proofs that a form came from a page of this server, of this visitor, for this purpose.

    Another site can make a browser send a form, but cannot read the page that contains its seal.
    """

    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def of(self, visitor: Visitor, purpose: str) -> str:
        """The seal that a form carries."""
        return hmac.new(self._secret, f"{visitor.user}\n{purpose}".encode(), hashlib.sha256).hexdigest()

    def proves(self, seal: str, visitor: Visitor, purpose: str) -> bool:
        """Whether a form with this seal came from such a page."""
        return hmac.compare_digest(seal.encode(), self.of(visitor, purpose).encode())


def is_this_machine(http: HttpRequest) -> bool:
    """Whether a request comes from this machine, to a local host name: another site's name may lead here too."""
    client = http.client.host if http.client else ""
    named = urlsplit(f"//{http.headers.get('host', '')}").hostname or ""
    forwarded = any(name in http.headers for name in ("forwarded", "x-forwarded-for"))
    return _is_loopback(client) and not forwarded and (named == "localhost" or _is_loopback(named))


def is_from_elsewhere(http: HttpRequest) -> bool:
    """Whether a browser says that another site sends this request."""
    site = http.headers.get("sec-fetch-site", "same-origin")
    return site not in {"same-origin", "none"}


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
