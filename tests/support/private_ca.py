"""A server with a certificate of a private authority, as companies have them."""

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuers_key: ec.EllipticCurvePrivateKey, *, ca: bool
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFE)
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if not ca:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key.public_key())
        builder = builder.add_extension(authority, critical=False)
    return builder.sign(issuers_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def certificates(directory: Path) -> tuple[Path, Path]:
    """The certificate of an authority, and that of a server at 127.0.0.1 with its key, as files in this directory."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca, own = directory / "ca.pem", directory / "own.pem"
    ca.write_bytes(_certificate("private authority", ca_key, "private authority", ca_key, ca=True))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    own.write_bytes(_certificate("server", key, "private authority", ca_key, ca=False) + pem)
    return ca, own


@contextmanager
def server_of_a_private_ca(directory: Path) -> Iterator[tuple[int, Path]]:
    """A port on which TLS is spoken, and the file of the authority's certificate."""
    ca, own = certificates(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with suppress(OSError), context.wrap_socket(connection, server_side=True) as stream:
                        stream.recv(4096)
                        stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], ca
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
