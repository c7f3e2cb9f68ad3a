"""Authentication of requests, and the permission to change something by a page."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field

from starlette.requests import Request as HttpRequest

from kaspr_delta.web.visitor import NEED_A_USER, NEED_AN_IDENTITY, is_this_machine

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

    def workspace_token(self, http: HttpRequest) -> str:
        """The user's workspace token, as handed on by the trusted proxy; empty if there is none."""
        return http.headers.get("x-forwarded-access-token", "") if self.behind_proxy else ""

    def refusal(self, http: HttpRequest, user: str | None) -> str:
        """Why an admitted request may change nothing by a page; empty if it may."""
        if self.behind_proxy:
            return "" if user is not None else NEED_A_USER
        return "" if self.token or is_this_machine(http) else NEED_AN_IDENTITY


def _password(given: str) -> str:
    """The password of HTTP Basic authentication; empty if it cannot be read."""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
