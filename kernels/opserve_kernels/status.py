"""Status codes of calls by family (aclnn and aclrt, TBE DSL, FT-DSP); exit statuses of programs."""

from collections.abc import Mapping
from enum import IntEnum


class AnyStatus(IntEnum):
    """A code of some family; its name is the reason in every API."""

    @property
    def domain(self) -> str:
        """The family that defines the number, in every API."""
        return DOMAINS[type(self)]


class Status(AnyStatus):
    """Codes of aclnn (161xxx, 361xxx, 561xxx) and of aclrt, as the vendor numbers them."""

    ACL_ERROR_INVALID_PARAM = 100000
    ACL_ERROR_RT_PARAM_INVALID = 107000
    ACL_ERROR_RT_INVALID_DEVICEID = 107001
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006
    ACL_ERROR_RT_INVALID_HANDLE = 107017
    ACL_ERROR_RT_WAIT_TIMEOUT = 107019
    ACL_ERROR_RT_TASK_TIMEOUT = 107020
    ACL_ERROR_RT_STREAM_ABORT = 107023
    ACLNN_ERR_PARAM_NULLPTR = 161001
    ACLNN_ERR_PARAM_INVALID = 161002
    ACL_ERROR_API_NOT_SUPPORT = 200001
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001
    ACL_ERROR_RT_NO_DEVICE = 207004
    ACL_ERROR_RT_RESOURCE_ALLOC_FAIL = 207005
    ACL_ERROR_RT_NO_PERMISSION = 207006
    ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007
    ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008
    ACL_ERROR_RT_OVER_LIMIT = 207012
    ACL_ERROR_RT_QUEUE_FULL = 207014
    ACLNN_ERR_RUNTIME_ERROR = 361001
    ACL_ERROR_INTERNAL_ERROR = 500000
    ACL_ERROR_RT_INTERNAL_ERROR = 507000
    ACL_ERROR_RT_AICORE_EXCEPTION = 507015
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047
    ACL_ERROR_RT_COPY_DATA = 507052
    ACL_ERROR_RT_SOCKET_CLOSE = 507901
    ACLNN_ERR_INNER = 561000
    ACLNN_ERR_INNER_NULLPTR = 561103


class TbeStatus(AnyStatus):
    """Codes of the TBE DSL; the vendor writes them as their names."""

    E60002 = 60002
    E60005 = 60005
    E60006 = 60006
    E60011 = 60011
    E60020 = 60020
    E60023 = 60023
    E60024 = 60024
    E60025 = 60025
    E60038 = 60038
    E60108 = 60108
    E60114 = 60114
    E64001 = 64001
    E64002 = 64002
    E64003 = 64003
    E64004 = 64004
    E65001 = 65001
    E65002 = 65002
    E65003 = 65003
    E65004 = 65004
    E65007 = 65007


class DeconvStatus(AnyStatus):
    """Codes of FT-DSP calls, whose originals return void: defined by opserve."""

    DECONV_PARAM_NULL = 1
    DECONV_PARAM_INVALID = 2
    DECONV_DTYPE_NOT_SUPPORTED = 3


DOMAINS: Mapping[type[AnyStatus], str] = {
    Status: "opserve",
    TbeStatus: "opserve.tbe",
    DeconvStatus: "opserve.ft_dsp",
}


class ExitStatus(IntEnum):
    """Exit statuses of `opserve` and of programs that are targets of `opserve conform`."""

    DONE = 0
    """The command did its work; `opserve conform`: no case failed."""
    FAILED = 1
    """The command failed; `opserve conform`: a case failed, or more cases fail than before."""
    UNUSABLE = 2
    """A wrong option or setting; `opserve conform`: nothing can be judged."""
    UNIMPLEMENTED = 77
    """Of a program under test: it does not implement the call. Automake's "skipped"."""
    INTERRUPTED = 130
    """Ctrl-C ended the command, as shells number it; of a service, before it was ready."""
