"""`kernels.select.intercept`: hooks around every request, their order, their removal, and the calls of other threads."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard.kernels import KERNELS, Request, Result, intercept
from regard.kernels.select import intercepted, readable_bytes

Q, K, V = (torch.randn(1, 2, n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 5, 5))


def recording(log: list[str], name: str) -> Callable[[Request, Callable[[Request], Result]], Result]:
    """A hook that logs its name before and after it runs the request."""

    def hook(request: Request, run: Callable[[Request], Result]) -> Result:
        log.append(name)
        result = run(request)
        log.append(f"/{name}")
        return result

    return hook


def call() -> Tensor:
    return regard.attend(Q, K, V)


def test_a_hook_receives_the_request_and_its_result_is_used() -> None:
    plain = call()

    def negate(request: Request, run: Callable[[Request], Result]) -> Result:
        assert request.query.shape == Q.shape
        result = run(request)
        assert result.selection is not None
        assert result.selection.kernel in KERNELS.values()
        return dataclasses.replace(result, output=-result.output)

    with intercept(negate):
        assert intercepted()
        torch.testing.assert_close(call(), -plain)
        torch.testing.assert_close(regard.observe(Q, K, V).output, -plain)
    assert not intercepted()
    torch.testing.assert_close(call(), plain)


def test_a_hook_may_run_a_changed_request_or_none_at_all() -> None:
    def causal(request: Request, run: Callable[[Request], Result]) -> Result:
        return run(dataclasses.replace(request, mask=regard.causal()))

    with intercept(causal):
        torch.testing.assert_close(call(), regard.attend(Q, K, V, mask=regard.causal(), kernel="reference"))
    with intercept(lambda request, run: Result(torch.zeros(1, 2, 3, 4))):
        assert not call().any()


def test_nested_hooks_run_from_the_innermost_block_outwards() -> None:
    log: list[str] = []
    with intercept(recording(log, "outer")), intercept(recording(log, "inner")):
        call()
    assert log == ["inner", "outer", "/outer", "/inner"]


def test_the_same_hook_may_be_registered_twice() -> None:
    log: list[str] = []
    hook = recording(log, "hook")
    with intercept(hook):
        with intercept(hook):
            call()
        assert log == ["hook", "hook", "/hook", "/hook"]
        log.clear()
        call()
        assert log == ["hook", "/hook"]
    assert not intercepted()


def test_hooks_may_be_removed_in_any_order() -> None:
    log: list[str] = []
    first, second, third = (intercept(recording(log, name)) for name in ("first", "second", "third"))
    for block in (first, second, third):
        block.__enter__()
    for block, left in ((second, ["third", "first"]), (first, ["third"]), (third, [])):
        block.__exit__(None, None, None)
        log.clear()
        call()
        assert [name for name in log if not name.startswith("/")] == left


def test_a_hook_receives_the_calls_of_other_threads() -> None:
    log: list[int] = []

    def hook(request: Request, run: Callable[[Request], Result]) -> Result:
        log.append(threading.get_ident())
        return run(request)

    with intercept(hook):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert log == [thread.ident]
        call()
    assert log == [thread.ident, threading.get_ident()]


def test_registering_in_several_threads_at_once_loses_no_hook() -> None:
    barrier, log = threading.Barrier(4), list[str]()

    def work(name: str) -> None:
        for _ in range(50):
            barrier.wait()
            with intercept(recording(log, name)):
                barrier.wait()
                if name == "0":
                    call()
                barrier.wait()

    threads = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not intercepted()
    assert all(log.count(name) == 50 for name in "0123")


def test_an_exception_in_the_block_removes_the_hook() -> None:
    with pytest.raises(ZeroDivisionError), intercept(recording([], "hook")):
        raise ZeroDivisionError
    assert not intercepted()


def test_an_exception_of_a_hook_reaches_the_caller_and_the_outer_hooks_stay() -> None:
    def fail(request: Request, run: Callable[[Request], Result]) -> Result:
        raise ZeroDivisionError

    log: list[str] = []
    with intercept(recording(log, "outer")):
        with pytest.raises(ZeroDivisionError), intercept(fail):
            call()
        assert log == []  # the failing hook never ran the request
        call()
    assert log == ["outer", "/outer"]


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1_234_567, "1.23 MB"), (5 * 10**15, "5e+03 TB")])
def test_readable_bytes(count: int, text: str) -> None:
    assert readable_bytes(count) == text
