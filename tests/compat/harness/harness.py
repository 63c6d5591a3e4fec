"""Runs the tests of a program and prints their results in the format of Rust's test programs."""

import asyncio
import inspect
import logging
import os
import sys
import traceback

BOLT = os.environ["BOLT"]
HOST, PORT = BOLT.rsplit(":", 1)
USER = "admin"
PASSWORD = os.environ["PASSWORD"]
URI = f"bolt://{BOLT}"
ROUTED_URI = f"neo4j://{BOLT}"

# The driver logs a notification for each label and type that is not in use yet.
logging.getLogger("neo4j").setLevel(logging.ERROR)


def expected_to_fail(message):
    """Marks a test of a feature that the server does not have: the test must raise an error that contains `message`.

    The mark fails when the feature begins to work, so that it is removed then.
    """

    def mark(test):
        test.expected_error = message
        return test

    return mark


def outcome(test):
    """An empty text if `test` ended as expected, otherwise what went wrong."""
    expected = getattr(test, "expected_error", None)
    try:
        done = test()
        if inspect.isawaitable(done):
            asyncio.run(done)
    except Exception as error:
        if expected is not None and expected in causes(error):
            return ""
        return f"{lines_of(error)}\n{causes(error)}\n"
    return "" if expected is None else f"works now: remove the mark `expected_to_fail({expected!r})`\n"


def lines_of(error):
    """The lines of the program and of the library at which an error was raised, the outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in reversed(frames))


def causes(error):
    """The messages of an error and of those that caused it."""
    texts = []
    while error is not None:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def run(program, tests, cleanup=None):
    """Runs `tests` in order, and exits with 1 if one failed. `cleanup` runs at the end."""
    chosen = sys.argv[1:]
    tests = [test for test in tests if not chosen or test.__name__ in chosen]
    print(f"running {len(tests)} tests", flush=True)
    failures = []
    for test in tests:
        why = outcome(test)
        mark = " (expected to fail)" if hasattr(test, "expected_error") else ""
        print(f"test {program}::{test.__name__}{mark} ... {'FAILED' if why else 'ok'}", flush=True)
        if why:
            failures.append((test.__name__, why))
    if cleanup is not None:
        cleanup()
    for name, why in failures:
        print(f"---- {program}::{name} ----\n{why}")
    state = "FAILED" if failures else "ok"
    print(f"test result: {state}. {len(tests) - len(failures)} passed; {len(failures)} failed; 0 ignored")
    sys.exit(1 if failures else 0)
