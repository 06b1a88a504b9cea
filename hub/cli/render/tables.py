"""Durations, sizes and numbers as people read them. Pure."""


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """`812 B`, `3.4 KiB`, `64 MiB`."""
    number, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if number < 1023.5:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}".removesuffix(".0") + f" {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def about(count: int) -> str:
    """A number that is only an estimate, with two digits: `~13`, `~4 100`, `~91 000`."""
    digits = max(0, len(str(count)) - 2)
    return f"~{round(count, -digits):,}".replace(",", " ")


def times(number: int) -> str:
    """`once`, `3 times`."""
    return "once" if number == 1 else f"{number} times"
