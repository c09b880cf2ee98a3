"""Garbage collection is put off under a lock, and never for good."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from txns._iceberg.collection import collected_later


def test_it_is_off_inside_and_on_after_the_last():
    with collected_later():
        with collected_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off():
    gc.disable()
    try:
        with collected_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_leaves_it_on():
    with pytest.raises(ValueError, match="x"), collected_later():
        raise ValueError("x")
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform forks no processes")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_that_is_forked_meanwhile_has_it():
    """The thread that had put it off is not in the child, and would never take it up."""
    inside, over = threading.Event(), threading.Event()

    def work():
        with collected_later():
            inside.set()
            over.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    over.set()
    thread.join()
    assert (child, 0) == os.waitpid(child, 0)
    assert gc.isenabled()
