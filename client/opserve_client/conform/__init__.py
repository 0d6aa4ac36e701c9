"""Conformance tests: run a kernel on the cases of a suite, and judge the results."""
