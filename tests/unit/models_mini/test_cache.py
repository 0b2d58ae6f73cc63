"""The label store's bounds and order of eviction."""

import numpy as np

from systone.models.mini.cache import Label, LabelCache


def label(value):
    return Label(np.full(384, float(value)), 0.0, np.zeros(3))


def test_a_kept_label_is_found_and_counted():
    cache = LabelCache(4, 10**6)
    assert cache.get("a") is None
    cache.put("a", label(1))
    assert cache.get("a").vector[0] == 1
    assert (cache.describe()["hits"], cache.describe()["misses"]) == (1, 1)


def test_the_least_recently_used_text_goes_first():
    cache = LabelCache(2, 10**6)
    cache.put("a", label(1))
    cache.put("b", label(2))
    cache.get("a")
    cache.put("c", label(3))
    assert cache.get("b") is None
    assert cache.get("a") is not None
    assert cache.describe()["evictions"] == 1


def test_bytes_are_bounded_and_returned():
    cache = LabelCache(1000, 12_000)
    for i in range(50):
        cache.put(f"text {i}", label(i))
        assert cache.describe()["bytes"] <= 12_000
    assert 0 < cache.describe()["texts"] < 50
    cache.put("x" * 12_000, label(0))
    assert cache.get("x" * 12_000) is None


def test_a_text_put_twice_counts_once():
    cache = LabelCache(4, 10**6)
    cache.put("a", label(1))
    size = cache.describe()["bytes"]
    cache.put("a", label(2))
    assert cache.describe()["bytes"] == size
    assert cache.get("a").vector[0] == 1


def test_a_cache_of_no_texts_keeps_nothing():
    cache = LabelCache(0, 10**6)
    cache.put("a", label(1))
    assert cache.get("a") is None
