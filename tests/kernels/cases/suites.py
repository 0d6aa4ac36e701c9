"""The suite smoke, made once for each seed and test process: its parts are frozen."""

from functools import cache

from opserve_kernels.cases import suites

smoke = cache(suites.smoke)
