"""Texts of peers as a terminal may be given them. Light, since every command that shows one needs it."""


def printable(text: str, keep: str = "") -> str:
    """`text` with control characters escaped, but for those in `keep` (SEC-54)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
