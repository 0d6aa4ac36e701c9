"""Dumps of msprobe, Huawei's accuracy debugger, as suites."""
