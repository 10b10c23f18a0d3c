"""Addresses of archives: how a file's is made, what may be told of one, where it may lead.

An address may carry a user and a password, or a signature as its query. Both are sent to the site
that they are meant for and shown to nobody: not in the ledger, a message or a table. So a site may
not send us on to another host either: the next one would be somebody else, or a service of this
machine that trusts whoever is on it.
"""

from urllib.parse import urlsplit, urlunsplit

from gdelphi.common.settings import HIDDEN


def base_address(url: str) -> str:
    """An archive's address with the host in small letters and a path that ends with a slash."""
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith("/") else parts.path + "/"
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme.lower(), f"{user}{at}{host.lower()}", path, parts.query, ""))


def file_address(base: str, name: str) -> str:
    """The address of a file: its name belongs to the path, before a signature."""
    parts = urlsplit(base)
    return urlunsplit((parts.scheme, parts.netloc, parts.path + name, parts.query, ""))


def public_address(url: str) -> str:
    """The address without user, password and query: what may stand in a ledger or a message."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def hide_secrets(text: str, url: str) -> str:
    """A text in which neither the user and password nor the query of an address stand."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    for secret in filter(None, (user, user.partition(":")[2], parts.query)):
        text = text.replace(secret, HIDDEN)
    return text


def may_lead_to(asked: str, target: str) -> bool:
    """Whether a site may send us on: to itself alone, and not from https back to http."""
    here, there = urlsplit(asked), urlsplit(target)
    if there.scheme not in ("http", "https") or here.hostname != there.hostname:
        return False
    upgraded = (here.scheme, there.scheme) == ("http", "https")
    return upgraded or (here.scheme == there.scheme and here.port == there.port)
