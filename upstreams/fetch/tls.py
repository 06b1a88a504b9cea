"""Whom we trust: the one TLS context of all clients."""

import functools
import ssl


@functools.cache
def system_trust() -> ssl.SSLContext:
    """The one TLS context: the system's certificate store (`SSL_CERT_FILE` and `SSL_CERT_DIR` count), certificates and
    names verified, TLS 1.2 at least. 24 ms to make."""
    context = ssl.create_default_context()
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols(["http/1.1"])
    return context
