"""Freed memory stays with the process until the process has grown."""

from harp_jax.base import allocator


def test_free_pages_are_returned_when_the_process_has_grown_by_a_quarter_since_its_first_step(monkeypatch):
    """And then since the step after: what lives on, such as cached documents, raises the bound."""
    sizes = iter([100, 125, 120, 126, 110, 137, 138, 108, 109])
    returned, seen = [], []
    monkeypatch.setattr(allocator, "_kept", True)
    monkeypatch.setattr(allocator, "resident_pages", lambda: seen.append(next(sizes)) or seen[-1])
    monkeypatch.setattr(allocator, "return_free_pages", lambda: returned.append(seen[-1]))
    growth = allocator.Growth()
    for _ in range(9):
        growth.after_step()
    assert returned == [126, 138]
