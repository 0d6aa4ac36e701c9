"""`python -m opserve_server` serves until it is told to stop."""


def main() -> int:
    """Serves; the result is the exit status."""
    # Workers import this module too, and need none of what the front needs.
    from opserve_server.app import main as serve  # noqa: PLC0415

    return serve()


if __name__ == "__main__":
    raise SystemExit(main())
