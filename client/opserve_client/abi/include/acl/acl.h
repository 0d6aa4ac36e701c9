/* Beginning and end of the vendor's programs, declared for opserve. */
#ifndef OPSERVE_ACL_H
#define OPSERVE_ACL_H

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connects to the service at OPSERVE_ADDRESS. A configuration file may be empty or "{}". */
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/* The sentences of this thread's failures and warnings since the last call, newest first, or null.
   The text lives until the thread's next call of this function. */
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg(void);

#ifdef __cplusplus
}
#endif

#endif
