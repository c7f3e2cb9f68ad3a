"""Errors of a store of objects, each in one sentence that says what to do."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from kaspr_delta.errors import StoreError, first_line
from kaspr_delta.storage.stores import endpoint

_CODE = re.compile(r"<Code>(\w+)</Code>")
_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
# The address at which a machine of AWS asks for its role.
_ROLE = "169.254.169.254"
NO_BUCKET = "NoSuchBucket"
"""The code of an error in a store that has no such bucket."""
_NOT_ACCEPTED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidClientTokenId")
_LONGEST = 300


def store_error(uri: str, error: BaseException) -> StoreError:
    """The error whose sentence names the problem of a store and the remedy; it tells no key."""
    text = str(error)
    found = _CODE.search(text)
    code, bucket, place = "" if found is None else found[1], urlsplit(uri).netloc, endpoint() or "AWS"
    refusals = (
        (_ROLE in text, f"cannot be reached without credentials: set {_CREDENTIALS}, or give this machine a role"),
        (code == NO_BUCKET, f"cannot be reached: {place} has no bucket {bucket}. Create it, or name another one"),
        (code == "RequestTimeTooSkewed", "refuses requests because the clock of this machine is wrong: set it"),
        (code in _NOT_ACCEPTED, f"refuses the credentials ({code}): check {_CREDENTIALS}, AWS_SESSION_TOKEN"),
        (
            "403 Forbidden" in text,
            f"refuses access ({code or 403}): these credentials need to list, read, write and remove files there",
        ),
        ("incorrectly configured region" in text, "is in another region: set AWS_REGION to that of the bucket"),
    )
    refusal = next((sentence for holds, sentence in refusals if holds), None)
    if refusal is not None:
        return StoreError(f"{uri} {refusal}")
    if "error sending request" in text:
        problem = f"cannot be reached: {place} does not answer. Check AWS_ENDPOINT_URL and the network"
    else:
        problem = f"cannot be reached or refuses: {code or first_line(error)[:_LONGEST]}"
    return StoreError(f"{uri} {problem}", may_pass=True)
