"""Access to the server: which requests are answered, who asks, and who may change something by a page's form."""

from __future__ import annotations

import base64
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
_FORWARDED = ("x-forwarded-email", "x-forwarded-user", "x-forwarded-preferred-username")


@dataclass(frozen=True)
class Access:
    """Decides which requests are answered. ``token``: the bearer token of each request; empty: none is needed.

    ``behind_proxy``: a proxy that cannot be bypassed names the user in headers, as on Databricks Apps.
    """

    token: str = field(default="", repr=False)
    behind_proxy: bool = False

    def admits(self, authorization: str | None, *, page: bool = False) -> bool:
        """Whether a request with this Authorization header may be answered.

        For a page the token may also be a password, with any user name: browsers can ask only for a password.
        """
        if not self.token:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        if page and scheme.lower() == "basic":
            given = _password(given)
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def user(self, http: HttpRequest) -> str | None:
        """The user that the trusted proxy names; None if it names none."""
        if not self.behind_proxy:
            return None
        return next((http.headers[name] for name in _FORWARDED if name in http.headers), None)

    def visitor(self, http: HttpRequest) -> Visitor:
        """The requester of a page, with the user and the workspace token that the trusted proxy hands on."""
        root = str(http.scope.get("root_path", "")).rstrip("/")
        if not self.behind_proxy:
            refused = "" if self.token or is_this_machine(http) else NEED_AN_IDENTITY
            return Visitor(root, http.query_params, refused=refused)
        user, token = self.user(http), http.headers.get("x-forwarded-access-token", "")
        return Visitor(root, http.query_params, user, "" if user is not None else NEED_A_USER, token)


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


def _password(given: str) -> str:
    """The password of HTTP Basic authentication; empty if it cannot be read."""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
