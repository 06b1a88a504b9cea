"""Client document: serves the metadata of a client (CIMD) over https from loopback, with an authority of its own.

    python -m tests.support.oauth.client_document DIRECTORY [--port 0] [--redirect URI ...] [--lie NAME]

DIRECTORY/ca.pem is what a fetcher has to trust, for instance by NODE_EXTRA_CA_CERTS.
"""

import argparse
import datetime
import pathlib
import ssl
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.oauth.pages import HTML, Pages, announce, listen, serve

PATH = "/oauth/client.json"
REDIRECTS = ["http://127.0.0.1:8765/oauth/callback", "http://localhost:8765/oauth/callback"]
LIES = ("other-id", "not-json", "redirect")
LIFE = datetime.timedelta(days=7)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificates(directory: pathlib.Path) -> pathlib.Path:
    """Make ca.pem there, and beside it a certificate for localhost with its key, whose path is returned."""
    now = datetime.datetime.now(datetime.UTC)
    key, authority = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def made(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name("rig authority"))
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - LIFE).not_valid_after(now + LIFE)

    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    ca = made("rig authority", authority.public_key()).add_extension(x509.BasicConstraints(True, None), True)
    ca_pem = ca.add_extension(authority_id, False).sign(authority, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id)
    leaf = made("localhost", key.public_key()).add_extension(names, False).add_extension(issued_by, False)
    leaf_pem = leaf.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.pem").write_bytes(ca_pem.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    both = directory / "server.pem"
    both.write_bytes(pem + leaf_pem)
    return both


def document(url: str, redirects: list[str]) -> dict[str, Any]:
    return {
        "client_id": url,
        "client_name": "hubd",
        "client_uri": url.removesuffix(PATH) + "/",
        "redirect_uris": redirects,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }


class Document(Pages):
    found: dict[str, Any]
    lie: str | None
    log: list[dict[str, str]]

    def route(self, method: str) -> None:
        if self.path == "/_rig/log":
            return self.say(200, self.log)
        self.log.append({"what": f"{method} {self.path}"})
        if self.lie == "redirect":
            return self.say(302, headers={"Location": "/elsewhere.json"})
        if self.path != PATH:
            return self.say(404)
        if self.lie == "not-json":
            return self.say(200, "<!doctype html>", kind=HTML)
        return self.say(200, self.found, {"Cache-Control": "max-age=5"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--redirect", nargs="*", default=REDIRECTS)
    parser.add_argument("--lie", choices=LIES)
    args = parser.parse_args()
    listener = listen(args.port)
    origin = f"https://localhost:{listener.getsockname()[1]}"
    url = origin + PATH
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates(args.directory))
    found = document(url + ("x" if args.lie == "other-id" else ""), args.redirect)
    serve(listener, type("Served", (Document,), {"found": found, "lie": args.lie, "log": []}), context)
    announce(client_id=url, control=origin, ca=str(args.directory / "ca.pem"))


if __name__ == "__main__":
    main()
