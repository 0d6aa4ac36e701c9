/* Beginning and end of programs that call operators without aclInit, declared for opserve. */
#ifndef OPSERVE_ACLNN_BASE_H
#define OPSERVE_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
constexpr aclnnStatus OK = 0;

extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char* configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
