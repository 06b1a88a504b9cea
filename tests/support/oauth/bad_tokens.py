"""Bad tokens: JWTs that a protected server must refuse, and a few that it must take.

They are signed by hand, so that no JWT library judges itself. A verdict is the HTTP status that is due: 200 for the
good ones, and nearly everywhere else 401, since a bad token is `invalid_token`. Times are relative to `now`.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(value: int, size: int) -> str:
    return b64(value.to_bytes(size, "big"))


class Keys:
    """An issuer's keys, and those of somebody who is none."""

    def __init__(self) -> None:
        self.ec, self.rsa, self.ed = (
            ec.generate_private_key(ec.SECP256R1()),
            rsa.generate_private_key(65537, 2048),
            ed25519.Ed25519PrivateKey.generate(),
        )
        self.ec_enc = ec.generate_private_key(ec.SECP256R1())
        self.stranger = ec.generate_private_key(ec.SECP256R1())

    def public(self) -> dict:
        return {
            "keys": [
                jwk_ec(self.ec, "e1", alg="ES256", use="sig"),
                jwk_rsa(self.rsa, "r1", alg="RS256", use="sig"),
                {
                    "kty": "OKP",
                    "crv": "Ed25519",
                    "kid": "d1",
                    "alg": "EdDSA",
                    "use": "sig",
                    "x": b64(
                        self.ed.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
                    ),
                },
                jwk_ec(self.ec_enc, "enc1", use="enc"),
                {"kty": "oct", "kid": "o1", "k": b64(b"a shared secret that nobody should have put here")},
            ]
        }


def jwk_ec(key: ec.EllipticCurvePrivateKey, kid: str, **more: str) -> dict:
    numbers = key.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "kid": kid, "x": number(numbers.x, 32), "y": number(numbers.y, 32), **more}


def jwk_rsa(key: rsa.RSAPrivateKey, kid: str, **more: str) -> dict:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": number(numbers.n, 256), "e": number(numbers.e, 3), **more}


def es256(key: ec.EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    return sign


def der(key: ec.EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
    return lambda data: key.sign(data, ec.ECDSA(hashes.SHA256()))


def rs256(key: rsa.RSAPrivateKey) -> Callable[[bytes], bytes]:
    return lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def hs256(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda data: hmac.new(secret, data, hashlib.sha256).digest()


def pack(head: bytes, payload: bytes, sign: Callable[[bytes], bytes]) -> str:
    data = f"{b64(head)}.{b64(payload)}".encode()
    return f"{data.decode()}.{b64(sign(data))}"


def tokens(
    keys: Keys,
    issuer: str,
    audience: str,
    *,
    now: int,
    other_issuer: str = "https://other.example",
    scope: str = "mcp",
    subject: str = "alice",
) -> list[dict]:
    good = {
        "iss": issuer,
        "sub": subject,
        "aud": audience,
        "exp": now + 300,
        "iat": now,
        "nbf": now,
        "client_id": "host-1",
        "scope": scope,
        "jti": "j1",
    }
    made: list[dict] = []

    def add(name: str, token: str, why: str, verdict: int = 401) -> None:
        made.append({"name": name, "token": token, "verdict": verdict, "why": why})

    def token(
        head: dict | None = None,
        sign: Callable[[bytes], bytes] | None = None,
        drop: tuple[str, ...] = (),
        **claims: object,
    ) -> str:
        top = {"alg": "ES256", "kid": "e1", "typ": "at+jwt", **(head or {})}
        body = {k: v for k, v in {**good, **claims}.items() if k not in drop}
        return pack(
            json.dumps({k: v for k, v in top.items() if v is not None}).encode(),
            json.dumps(body).encode(),
            sign or es256(keys.ec),
        )

    ok = token()
    pem = keys.ec.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, payload, signature = ok.split(".")
    stranger = es256(keys.stranger)
    embedded = jwk_ec(keys.stranger, "e1", alg="ES256")

    # what must be taken
    add("good-es256", ok, "as it should be", 200)
    add("good-rs256", token({"alg": "RS256", "kid": "r1"}, rs256(keys.rsa)), "RSA", 200)
    add("good-eddsa", token({"alg": "EdDSA", "kid": "d1"}, keys.ed.sign), "Ed25519", 200)
    add(
        "good-two-audiences", token(aud=["https://elsewhere.example", audience]), "one of two audiences is the hub", 200
    )
    add("good-typ-jwt", token({"typ": "JWT"}), "many servers do not say at+jwt", 200)
    add("good-typ-long", token({"typ": "application/AT+JWT"}), "RFC 9068 2.1: with application/, any case", 200)
    add("good-skew", token(exp=now - 30, nbf=now - 400), "expired 30 s ago: within the skew of 60 s", 200)

    # signature
    add("alg-none", pack(b'{"alg":"none","typ":"at+jwt"}', json.dumps(good).encode(), lambda _: b""), "no signature")
    add(
        "alg-nOnE",
        pack(b'{"alg":"nOnE","kid":"e1"}', json.dumps(good).encode(), lambda _: b""),
        "no signature, odd case",
    )
    add("alg-missing", pack(b'{"kid":"e1"}', json.dumps(good).encode(), es256(keys.ec)), "no algorithm")
    add("hs256-public-key", token({"alg": "HS256"}, hs256(pem)), "public key as shared secret")
    add(
        "hs256-oct-in-jwks",
        token({"alg": "HS256", "kid": "o1"}, hs256(b"a shared secret that nobody should have put here")),
        "symmetric key in the JWKS",
    )
    add("flipped-bit", f"{head}.{payload}.{('A' if signature[0] != 'A' else 'B') + signature[1:]}", "signature changed")
    add("payload-swapped", f"{head}.{b64(json.dumps({**good, 'sub': 'root'}).encode())}.{signature}", "payload changed")
    add("empty-signature", f"{head}.{payload}.", "no signature at all")
    add("short-signature", f"{head}.{payload}.{signature[:-8]}", "signature cut")
    add("der-signature", token(sign=der(keys.ec)), "ECDSA signature in DER")
    add("zero-signature", token(sign=lambda _: bytes(64)), "r = s = 0")
    add("stranger-same-kid", token(sign=stranger), "another key under a known kid")
    add("unknown-kid", token({"kid": "nobody"}, stranger), "a kid that the JWKS does not have")
    add("kid-path", token({"kid": "../../dev/null"}, stranger), "a kid that is a path")
    add("kid-number", token({"kid": 1}), "a kid that is no string")
    add("encryption-key", token({"kid": "enc1"}, es256(keys.ec_enc)), "signed by a key with use=enc")
    add(
        "alg-not-the-keys",
        token(
            {"alg": "PS256", "kid": "r1"},
            lambda d: keys.rsa.sign(d, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256()),
        ),
        "PS256 by a key that says RS256",
    )
    add("alg-of-other-type", token({"alg": "RS256", "kid": "e1"}, rs256(keys.rsa)), "RS256 by an EC key")
    add("jwk-in-header", token({"jwk": embedded}, stranger), "brings its own key")
    add("jku-in-header", token({"jku": "https://attacker.example/jwks", "kid": "a"}, stranger), "says where its key is")
    add(
        "x5u-in-header",
        token({"x5u": "https://attacker.example/cert", "kid": "a"}, stranger),
        "says where its certificate is",
    )
    add("x5c-in-header", token({"x5c": [b64(b"certificate")], "kid": "a"}, stranger), "brings its own certificate")
    add("crit-unknown", token({"crit": ["exp"], "exp": now + 300}), "a critical header that nobody knows")
    add("crit-empty", token({"crit": []}), "crit must not be empty (RFC 7515 4.1.11)")
    add("b64-false", token({"b64": False, "crit": ["b64"]}), "unencoded payload (RFC 7797)")
    add("jwe-shape", "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkExMjhHQ00ifQ.a.b.c.d", "five parts: encrypted")

    # form
    add("two-parts", f"{head}.{payload}", "two parts")
    add("four-parts", f"{ok}.x", "four parts")
    add("padding", f"{head}=.{payload}.{signature}", "base64 with padding")
    add("whitespace-inside", f"{head}.\t{payload}.{signature}", "white space")
    add("not-base64", f"{head}.!!!.{signature}", "not base64")
    add(
        "payload-array",
        pack(json.dumps({"alg": "ES256", "kid": "e1"}).encode(), b'["alice"]', es256(keys.ec)),
        "claims are a list",
    )
    add("header-array", pack(b'["ES256"]', json.dumps(good).encode(), es256(keys.ec)), "header is a list")
    add(
        "payload-not-json",
        pack(json.dumps({"alg": "ES256", "kid": "e1"}).encode(), b"alice", es256(keys.ec)),
        "claims are no JSON",
    )
    add(
        "payload-not-utf8",
        pack(
            json.dumps({"alg": "ES256", "kid": "e1"}).encode(),
            json.dumps(good).encode().replace(b"alice", b"al\xff\xfe"),
            es256(keys.ec),
        ),
        "not UTF-8",
    )
    add(
        "duplicate-aud",
        pack(
            json.dumps({"alg": "ES256", "kid": "e1"}).encode(),
            json.dumps(good).replace('"aud"', '"aud": "https://elsewhere.example", "aud"', 1).encode(),
            es256(keys.ec),
        ),
        "two members named aud: readers differ",
    )
    add(
        "duplicate-alg",
        pack(b'{"alg":"none","alg":"ES256","kid":"e1"}', json.dumps(good).encode(), es256(keys.ec)),
        "two members named alg",
    )
    add(
        "deep-payload",
        pack(
            json.dumps({"alg": "ES256", "kid": "e1"}).encode(),
            json.dumps(good).encode()[:-1] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
            es256(keys.ec),
        ),
        "nested 5 000 deep",
    )
    add("too-long", token(pad="x" * 20000), "longer than 16 KiB")

    # time
    add("expired", token(exp=now - 61, nbf=now - 400), "expired 61 s ago")
    add("no-exp", token(drop=("exp",)), "never expires")
    add("exp-string", token(exp=str(now + 300)), "exp is a string")
    add("exp-bool", token(exp=True), "exp is true")
    add(
        "exp-huge",
        pack(
            json.dumps({"alg": "ES256", "kid": "e1"}).encode(),
            json.dumps(good).replace(str(now + 300), "1e400", 1).encode(),
            es256(keys.ec),
        ),
        "exp is infinite",
    )
    add("not-yet", token(nbf=now + 61), "valid in 61 s")
    add("issued-tomorrow", token(iat=now + 86400), "issued in the future")

    # who and for whom
    add("no-iss", token(drop=("iss",)), "no issuer")
    add("wrong-iss", token(iss="https://attacker.example"), "an issuer that is not configured")
    add("iss-slash", token(iss=issuer + "/"), "the issuer with a slash more")
    add("iss-of-another", token(iss=other_issuer), "another configured issuer, signed by this one")
    add("iss-list", token(iss=[issuer]), "the issuer in a list")
    add("no-aud", token(drop=("aud",)), "no audience")
    add("wrong-aud", token(aud="https://elsewhere.example/mcp"), "for somebody else")
    add("aud-origin", token(aud=audience.rsplit("/", 1)[0]), "the origin of the hub, not its endpoint")
    add("aud-longer", token(aud=audience + "/x"), "what begins with the endpoint")
    add("aud-list-without", token(aud=["https://a.example", "https://b.example"]), "two others")
    add("aud-empty-list", token(aud=[]), "nobody")
    add("aud-object", token(aud={"uri": audience}), "an object")
    add("aud-client-id", token(aud="host-1", nonce="n"), "an ID token: its audience is the client")
    add(
        "id-token-right-audience",
        token({"typ": "JWT"}, nonce="n", at_hash="MTIzNDU2Nzg5MDEyMzQ1Ng"),
        "an ID token for an audience that is the hub's",
    )
    add("id-jag", token({"typ": "oauth-id-jag+jwt"}), "an ID-JAG is a grant and no access token")
    add("logout-token", token({"typ": "logout+jwt"}), "a logout token")
    add("dpop-proof", token({"typ": "dpop+jwt"}), "a DPoP proof")
    add(
        "bound-to-a-key",
        token(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
        "bound to a key (RFC 9449), sent as Bearer",
    )
    add(
        "bound-to-a-certificate",
        token(cnf={"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}),
        "bound to a certificate (RFC 8705)",
    )
    add("no-sub", token(drop=("sub",)), "nobody in particular")
    add("empty-sub", token(sub=""), "an empty name")
    add("sub-number", token(sub=7), "a number")
    add("sub-newline", token(sub="alice\nbob"), "control characters in the name")

    # right token, too little
    add("no-scope", token(drop=("scope",)), "no scope at all, where one is required", 403)
    add("other-scope", token(scope="openid profile"), "other scopes", 403)
    add("scope-part", token(scope="mcpx xmcp"), "scopes that only contain the name", 403)
    return made
