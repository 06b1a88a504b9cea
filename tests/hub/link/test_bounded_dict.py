"""The oldest entry is forgotten; one that is put again is the newest."""

from hub.link.bounded_dict import BoundedDict


def test_the_oldest_is_forgotten():
    recent: BoundedDict[str, int] = BoundedDict(2)
    for key in "abca":
        recent.put(key, ord(key))
    assert recent == {"c": ord("c"), "a": ord("a")}
    recent.put("c", 0)
    recent.put("d", 1)
    assert list(recent) == ["c", "d"]
