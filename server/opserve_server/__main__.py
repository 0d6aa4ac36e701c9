"""`python -m opserve_server` serves until it is told to stop."""

import gc


def main() -> int:
    """Serves; the result is the exit status."""
    # Garbage collections while modules load find all of them in use, and take a fifth of that time.
    gc.disable()
    # Workers import this module too, and need none of what the front needs.
    from opserve_server.app import main as serve  # noqa: PLC0415

    gc.enable()
    return serve()


if __name__ == "__main__":
    raise SystemExit(main())
